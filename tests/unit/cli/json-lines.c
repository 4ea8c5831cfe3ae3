// SPDX-License-Identifier: LGPL-2.1-or-later
/* Reads lines, each of which must be a JSON object with "event"; the last must be the one "result". Prints its status. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static char line[1 << 20];

int main(void)
{
	json_error_t error;
	int results = 0;
	json_int_t status = -1;

	while (fgets(line, sizeof(line), stdin)) {
		size_t length = strlen(line);
		json_t *event = json_loads(line, 0, &error);
		const char *name = json_string_value(json_object_get(event, "event"));

		if (!name || line[length - 1] != '\n' || results) {
			fprintf(stderr, "not an event, or behind the result: %s\n", line);
			return 1;
		}
		if (!strcmp(name, "result")) {
			results++;
			status = json_integer_value(json_object_get(event, "status"));
		}
		json_decref(event);
	}
	if (results != 1) {
		fprintf(stderr, "no result\n");
		return 1;
	}
	printf("%lld\n", (long long)status);
	return 0;
}
