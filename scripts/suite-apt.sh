# SPDX-License-Identifier: LGPL-2.1-or-later
# An apt of our own for one Debian suite, whatever the host's own is: it takes the host's mirror and keys, works in a folder that the
# caller removes, installs nothing, and needs no root. Sourced by fetch-qemu and fetch-kernel.
#
#     suite_apt_begin SUITE FOLDER    a private state in FOLDER, and the package lists
#     suite_apt apt-get|apt-cache ...

suite_apt_begin() {
	local mirror keys=/usr/share/keyrings/debian-archive-keyring.gpg suite=$1 s
	suite_apt=$2
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' \
		'Component: main' | head -n 1)
	[ -n "$mirror" ] || { echo "this host's apt knows no Debian mirror (apt-get update may help)" >&2; return 1; }
	[ -r "$keys" ] || keys=
	mkdir -p "$suite_apt/etc/preferences.d" "$suite_apt/lists/partial" "$suite_apt/cache/archives/partial"
	: >"$suite_apt/status"
	for s in ${suite%-backports} $suite; do
		echo "deb ${keys:+[signed-by=$keys] }$mirror $s main"
	done | sort -u >"$suite_apt/etc/sources.list"
	suite_apt apt-get -q -y update >&2
}

suite_apt() {
	local tool=$1
	shift
	"$tool" -o Dir::Etc="$suite_apt/etc" -o Dir::Etc::sourceparts=- -o Dir::Etc::main=- \
		-o Dir::Etc::trustedparts=/etc/apt/trusted.gpg.d -o Dir::State="$suite_apt" \
		-o Dir::State::status="$suite_apt/status" -o Dir::Cache="$suite_apt/cache" -o APT::Sandbox::User="$(id -un)" \
		-o APT::Install-Recommends=false -o Acquire::Languages=none -o Debug::NoLocking=true "$@"
}
