#!/usr/bin/env bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# arrows.sh ROOT: hold the tree to the walls of docs/design.md section 2: who may include whom, what each part may touch,
# and a licence line in every file. It then plants an offence of each kind in a copy, to show that it would be seen.
set -uo pipefail

root=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- The table: what a file in a folder may include, besides its own folder -------------------------------------------
# "include" is the public header. Tests and bench may look into everything; examples see what a user of the library sees.

declare -A arrows=(
	[include]=""
	[common]=""
	[memory]="common"
	[fabric]="common"
	[engine]="fabric/fabric.h memory common"
	[qemu]="include memory common"
	[guests]="include memory common"
	[lib]="include engine fabric memory qemu guests common"
	[cli]="include"
	[examples]="include"
)

sources() { # DIRECTORY...: the C files there, relative to the current directory
	find "$@" -name '*.[ch]' 2>/dev/null | sort
}

# "file:line:path" of each #include "path", before comments are taken out: these need no context.
includes() {
	sources "$@" | xargs -r grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]*"' |
		sed -E 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)"/:\1/'
}

check_includes() {
	local folder file line path target allowed
	for folder in "${!arrows[@]}"; do
		while IFS=: read -r file line path; do
			case $path in
			ramferry.h) target=include ;;
			*/*) target=${path%%/*} ;;
			*)
				echo "$file:$line: \"$path\" is not written from the root"
				continue
				;;
			esac
			allowed=
			for one in "$folder" ${arrows[$folder]}; do
				[ "$one" != "$target" ] && [ "$one" != "$path" ] || allowed=yes
			done
			[ -n "$allowed" ] || echo "$file:$line: $folder/ may not include \"$path\""
		done < <(includes "$folder")
	done
}

# Code without comments, as "file:line: code", so that the greps below see what is done and not what is said.
code() {
	sources "$@" | xargs -r awk '
		FNR == 1 { inside = 0 }
		{
			text = $0; out = ""
			while (text != "") {
				if (inside) {
					end = index(text, "*/")
					if (!end) break
					text = substr(text, end + 2); inside = 0
					continue
				}
				block = index(text, "/*"); line = match(text, /(^|[^:])\/\//) # not the // of a URI
				if (line && (!block || line < block)) { out = out substr(text, 1, line); break }
				if (!block) { out = out text; break }
				out = out substr(text, 1, block - 1) " "; text = substr(text, block + 2); inside = 1
			}
			if (out ~ /[^ \t]/) print FILENAME ":" FNR ": " out
		}'
}

never() { # WHY REGEX DIRECTORY...: offences on standard output. A call through "->" or "." is somebody else's operation.
	local why=$1 regex=$2 folder
	shift 2
	for folder; do
		grep "^$folder/" "$work/code" | grep -E "^[^:]*:[0-9]*:.*($regex)" | sed -E "s|^([^:]*:[0-9]*): .*|\1: $why|"
	done
}

calls() { # NAME...: a regex for calls of these functions
	local IFS='|'
	echo "(^|[^A-Za-z0-9_>.*])($*)[[:space:]]*\("
}

check_touches() {
	local product=(include common memory fabric engine qemu guests lib cli)
	local library=(common memory fabric engine qemu guests lib)

	never "engine/ reaches past its fabric" "$(calls clock_gettime clock_nanosleep gettimeofday time nanosleep usleep \
		sleep open openat fopen socket 'pthread_[a-z_]*' 'thrd_[a-z]*' fork syscall)" engine
	never "engine/ reaches past its fabric" '#[[:space:]]*include[[:space:]]*<(time|sys/time|pthread|threads|fcntl|sys/socket|unistd)\.h>' engine
	never "verbs belong into fabric/verbs*" '#[[:space:]]*include[[:space:]]*<(infiniband|rdma)/|(^|[^A-Za-z0-9_])ibv_[a-z]' \
		"${product[@]}" examples bench | grep -v '^fabric/verbs'
	never "QMP belongs into qemu/" '"(execute|qmp_capabilities|migrate-incoming|query-[a-z-]+)"|\\"execute\\"|rf_qmp_' \
		include common memory fabric engine guests lib cli
	never "the library prints nothing" "$(calls printf vprintf puts putchar perror warn warnx err errx)|(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|\$)" "${library[@]}"
	never "the library never exits" "$(calls exit abort quick_exit atexit)" "${library[@]}"
	never "the library leaves signals alone and forks nothing" "$(calls signal sigaction fork vfork system popen)" \
		common memory fabric engine guests lib
}

# Whatever people wrote that a machine reads: C, scripts, build rules, guest assembly, pages of the manual.
check_licence() {
	find . \( -name .git -o -name 'build*' -o -name .cache -o -name '.pytest*' \) -prune -o -type f -print | sort |
		while read -r file; do
			case $file in
			*.c | *.h | *.S | *.sh | *.py | *.in | *.[1-9] | */meson.build | */Makefile) ;;
			*) [ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ] || continue ;;
			esac
			head -n 5 "$file" | grep -q 'SPDX-License-Identifier: LGPL-2.1-or-later' ||
				echo "${file#./}:1: no SPDX-License-Identifier: LGPL-2.1-or-later"
		done
}

check_tree() { # DIRECTORY
	(
		cd "$1" || exit
		code include common memory fabric engine qemu guests lib cli examples bench >"$work/code"
		check_includes
		check_touches
		check_licence
	) | sort -u
}

# ---- The tree, and then a copy with offences --------------------------------------------------------------------------

found=$(check_tree "$root")
if [ -n "$found" ]; then
	echo "$found"
	exit 1
fi

tree=$work/planted
plant() { # FILE LINE WHY: add a line to a file of that tree; WHY is empty when it is no offence
	mkdir -p "$tree/$(dirname "$1")"
	[ -e "$tree/$1" ] || echo '// SPDX-License-Identifier: LGPL-2.1-or-later' >"$tree/$1"
	echo "$2" >>"$tree/$1"
	[ -z "$3" ] || echo "$1:$(wc -l <"$tree/$1"): $3" >>"$work/expected"
}

plant common/x.c '#include "memory/block.h"' 'common/ may not include "memory/block.h"'
plant memory/x.c '#include "fabric/fabric.h"' 'memory/ may not include "fabric/fabric.h"'
plant fabric/x.h '# include "memory/block.h"' 'fabric/ may not include "memory/block.h"'
plant engine/x.c '#include "fabric/tcp.h"' 'engine/ may not include "fabric/tcp.h"'
plant engine/x.c '#include "qemu/qmp.h"' 'engine/ may not include "qemu/qmp.h"'
plant qemu/x.c '#include "engine/engine.h"' 'qemu/ may not include "engine/engine.h"'
plant guests/x.c '#include "lib/guest.h"' 'guests/ may not include "lib/guest.h"'
plant lib/x.c '#include "cli/main.h"' 'lib/ may not include "cli/main.h"'
plant cli/x.c '#include "common/sizes.h"' 'cli/ may not include "common/sizes.h"'
plant examples/x.c '#include "common/error.h"' 'examples/ may not include "common/error.h"'
plant engine/x.c '#include "wire.h"' '"wire.h" is not written from the root'
plant engine/x.c 'clock_gettime(CLOCK_MONOTONIC, &t);' 'engine/ reaches past its fabric'
plant engine/x.c 'int fd = open("x", 0);' 'engine/ reaches past its fabric'
plant engine/x.c 'pthread_create(&t, NULL, f, NULL);' 'engine/ reaches past its fabric'
plant engine/x.c '#include <time.h>' 'engine/ reaches past its fabric'
plant lib/x.c '#include <infiniband/verbs.h>' 'verbs belong into fabric/verbs*'
plant fabric/tcp.c '#include <rdma/rdma_cma.h>' 'verbs belong into fabric/verbs*'
plant cli/x.c 'send("{\"execute\": \"cont\"}");' 'QMP belongs into qemu/'
plant lib/x.c 'rf_qmp_open(&q, path, e);' 'QMP belongs into qemu/'
plant memory/x.c 'printf("hello");' 'the library prints nothing'
plant qemu/x.c 'fprintf(stderr, "hello");' 'the library prints nothing'
plant fabric/x.c 'exit(1);' 'the library never exits'
plant lib/x.c 'signal(SIGPIPE, SIG_IGN);' 'the library leaves signals alone and forks nothing'

# And what is allowed must not be called an offence.
plant engine/x.c '#include "fabric/fabric.h"' ''
plant engine/x.c 'fabric->ops->open(config, &f, e); int (*open)(void); f.time(0); /* never open() a file */ // time()' ''
plant fabric/verbs.c '#include <infiniband/verbs.h>' ''
plant cli/x.c '#include "ramferry.h"' ''
plant cli/x.c 'puts("tcp://host");' ''
plant lib/x.c 'const char *uri = "tcp://host"; int rf_exit(void); ' ''

echo 'int x;' >"$tree/lib/bare.c"
echo 'lib/bare.c:1: no SPDX-License-Identifier: LGPL-2.1-or-later' >>"$work/expected"

if ! diff -u --label expected --label found <(sort -u "$work/expected") <(check_tree "$tree"); then
	echo "offences were planted in a tree of their own, and this test does not see just these"
	exit 1
fi
