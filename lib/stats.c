// SPDX-License-Identifier: LGPL-2.1-or-later
/* Statistics by name, from the engine's tables. */
#include "engine/stats.h"
#include "lib/migration.h"

#include <string.h>

/* NULL past the end. */
static const struct rf_stat_name *entry_at(const struct rf_stat_name *table, size_t index)
{
	for (size_t i = 0; table[i].name; i++)
		if (i == index)
			return &table[i];
	return NULL;
}

static int look_up(const struct rf_stat_name *table, const void *numbers, const char *name, uint64_t *value)
{
	for (; name && table->name; table++) {
		if (strcmp(table->name, name))
			continue;
		if (value)
			memcpy(value, (const char *)numbers + table->offset, sizeof *value);
		return 0;
	}
	return -1;
}

RF_API const char *rf_stat_name(size_t index)
{
	const struct rf_stat_name *entry = entry_at(rf_stat_table, index);

	return entry ? entry->name : NULL;
}

RF_API const char *rf_stat_help(size_t index)
{
	const struct rf_stat_name *entry = entry_at(rf_stat_table, index);

	return entry ? entry->help : NULL;
}

RF_API int rf_stat(const rf_migration *m, const char *name, uint64_t *value)
{
	return m ? look_up(rf_stat_table, &m->stats, name, value) : -1;
}

RF_API size_t rf_round_count(const rf_migration *m)
{
	return m ? m->stats.nrounds : 0;
}

RF_API const char *rf_round_stat_name(size_t index)
{
	const struct rf_stat_name *entry = entry_at(rf_round_stat_table, index);

	return entry ? entry->name : NULL;
}

RF_API const char *rf_round_stat_help(size_t index)
{
	const struct rf_stat_name *entry = entry_at(rf_round_stat_table, index);

	return entry ? entry->help : NULL;
}

RF_API int rf_round_stat(const rf_migration *m, size_t round, const char *name, uint64_t *value)
{
	if (!m || round >= m->stats.nrounds)
		return -1;
	return look_up(rf_round_stat_table, &m->stats.rounds[round], name, value);
}
