// SPDX-License-Identifier: LGPL-2.1-or-later
/* The public view of the one option table. */
#include "common/options.h"
#include "ramferry.h"

#include <assert.h>

static const char *kind_name(enum rf_option_type type)
{
	static const char *const names[] = {
	    [RF_OPT_SIZE] = "size",   [RF_OPT_RATE] = "rate",     [RF_OPT_DURATION] = "duration",
	    [RF_OPT_COUNT] = "count", [RF_OPT_CHOICE] = "choice", [RF_OPT_FLAG] = "flag",
	    [RF_OPT_NAME] = "name",
	};

	assert((size_t)type < sizeof names / sizeof *names);
	return names[type];
}

RF_API int rf_option_info_at(size_t index, rf_option_info *info)
{
	if (index >= rf_option_count() || !info)
		return -1;

	const struct rf_option *option = rf_option_at(index);

	*info = (rf_option_info){
	    .name = option->name,
	    .kind = kind_name(option->type),
	    .for_send = !!(option->sides & RF_OPT_SOURCE),
	    .for_receive = !!(option->sides & RF_OPT_DESTINATION),
	    .help = option->help,
	};
	rf_option_range(option, info->range, sizeof info->range);
	rf_option_format(option, option->initial, info->initial, sizeof info->initial);
	return 0;
}
