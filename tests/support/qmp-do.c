// SPDX-License-Identifier: LGPL-2.1-or-later
/* qmp-do SOCKET COMMAND [ARGUMENTS [FIELD]]: run one QMP command and print its answer, or only the named field of it
 * ("ram.transferred"; text without quotes). ARGUMENTS is a JSON object, "" for none. Status 1 with QEMU's sentence when the
 * command fails or there is no such field. */
#include "qmp.h"

#include <stdio.h>
#include <string.h>

static const json_t *field_of(const json_t *value, char *path)
{
	char *save = NULL;

	for (char *name = strtok_r(path, ".", &save); value && name; name = strtok_r(NULL, ".", &save))
		value = json_object_get(value, name);
	return value;
}

static int print(const json_t *value)
{
	if (!value)
		return 1;
	if (json_is_string(value)) {
		puts(json_string_value(value));
		return 0;
	}
	json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	const json_t *error;
	json_t *message;
	struct qmp q;

	if (argc < 3 || argc > 5) {
		fprintf(stderr, "usage: qmp-do SOCKET COMMAND [ARGUMENTS [FIELD]]\n");
		return 2;
	}
	if (qmp_open(&q, argv[1], 10000))
		return 1;
	if (qmp_send(&q, argv[2], argc > 3 && *argv[3] ? argv[3] : NULL))
		return 1;
	while ((message = qmp_next(&q, 60000))) {
		int status = 1;

		error = json_object_get(message, "error");
		if (error)
			fprintf(stderr, "%s: %s\n", argv[2], json_string_value(json_object_get(error, "desc")));
		else if (json_object_get(message, "return"))
			status = print(field_of(json_object_get(message, "return"), argc > 4 ? argv[4] : (char[1]){0}));
		else {
			json_decref(message); /* an event */
			continue;
		}
		json_decref(message);
		qmp_close(&q);
		return status;
	}
	if (!strcmp(argv[2], "quit"))
		return 0;
	fprintf(stderr, "%s: no answer\n", argv[2]);
	return 1;
}
