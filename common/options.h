// SPDX-License-Identifier: LGPL-2.1-or-later
/* The one table of options. It feeds rf_set(), the command line and its help, the HELLO message and the manual. */
#ifndef RAMFERRY_COMMON_OPTIONS_H
#define RAMFERRY_COMMON_OPTIONS_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rf_option_type {
	RF_OPT_SIZE,
	RF_OPT_RATE,
	RF_OPT_DURATION,
	RF_OPT_COUNT,
	RF_OPT_CHOICE,
	RF_OPT_FLAG,
	RF_OPT_NAME, /* a text of RF_OPTION_NAME_BYTES; the only one that is no uint64_t, and never on the wire */
};

enum { RF_OPTION_NAME_BYTES = 64 };

#define RF_OPTION_UNSET UINT64_MAX /* of an option with `unset_means`, which cannot be set to that */

enum rf_option_side {
	RF_OPT_SOURCE = 1,      /* means something to `send` */
	RF_OPT_DESTINATION = 2, /* means something to `receive` */
	RF_OPT_WIRE = 4,        /* the source's HELLO tells the destination, whose own value is overruled */
	RF_OPT_POWER_OF_TWO = 8,
};

enum rf_register_mode { RF_REGISTER_ON_DEMAND, RF_REGISTER_PIN_ALL, RF_REGISTER_ODP };
enum rf_switchover { RF_SWITCHOVER_LOW_POINT, RF_SWITCHOVER_THRESHOLD };
enum rf_on_stall { RF_ON_STALL_WAIT, RF_ON_STALL_FORCE, RF_ON_STALL_ABORT };
enum rf_source_memory { RF_SOURCE_AUTO, RF_SOURCE_DIRECT, RF_SOURCE_STAGED };
enum rf_tracker_choice {
	RF_TRACKER_AUTO,
	RF_TRACKER_WP_ASYNC,
	RF_TRACKER_SOFT_DIRTY,
	RF_TRACKER_HASH,
	RF_TRACKER_CALLBACK
};

/* Every field but a name is a uint64_t, so that one setter serves nearly the whole table. Units as in the names. */
struct rf_options {
	uint64_t chunk_size_bytes;
	uint64_t register_mode;        /* enum rf_register_mode */
	uint64_t register_ahead_bytes; /* 0: ask for a chunk only when the writer needs it */
	uint64_t writes_per_chunk;     /* 0: no limit */
	uint64_t switchover;           /* enum rf_switchover */
	uint64_t queue_depth;          /* writes in flight per lane */
	uint64_t max_write_bytes;
	uint64_t lanes;            /* 0: from the CPU count */
	uint64_t workers;          /* 0: from the CPU count */
	uint64_t max_bandwidth;    /* bytes per second, 0: no limit */
	uint64_t max_pinned_bytes; /* 0: no limit */
	uint64_t source_memory;    /* enum rf_source_memory */
	uint64_t tracker;          /* enum rf_tracker_choice */
	uint64_t downtime_limit_ns;
	uint64_t on_stall;   /* enum rf_on_stall */
	uint64_t timeout_ns; /* 0: none */
	uint64_t connect_timeout_ns;
	uint64_t peer_timeout_ns;    /* silence after which a peer counts as dead */
	uint64_t resolve_timeout_ns; /* how long either side waits in a state it may not leave alone */
	uint64_t verify;             /* flag */

	/* For RDMA cards. Each side has its own: the connection is there before HELLO can tell. */
	uint64_t signal_interval;          /* 0: choose */
	uint64_t rdma_timeout_ns;          /* 0: choose */
	uint64_t rdma_retry;               /* 0 to 7 */
	uint64_t traffic_class;            /* 0 to 255 */
	uint64_t gid_index;                /* RF_OPTION_UNSET: choose */
	char device[RF_OPTION_NAME_BYTES]; /* "": choose */
};

struct rf_option {
	const char *name; /* as on the command line, without "--" */
	enum rf_option_type type;
	unsigned sides; /* enum rf_option_side, or'ed */
	size_t offset;  /* of its field in struct rf_options */
	uint64_t minimum, maximum, initial;
	bool zero_allowed; /* 0 is allowed although it is below `minimum`, and means what `zero_means` says */
	const char *zero_means;
	const char *unset_means;    /* what is done when it is never set; initial is RF_OPTION_UNSET, a name is "" */
	const char *const *choices; /* RF_OPT_CHOICE: names by value, NULL at the end */
	const char *help;           /* one sentence without full stop */
};

size_t rf_option_count(void);
const struct rf_option *rf_option_at(size_t index);
const struct rf_option *rf_option_find(const char *name); /* NULL: no such option */

void rf_options_init(struct rf_options *o);
uint64_t rf_option_value(const struct rf_options *o, const struct rf_option *option); /* of all but names */

/* -1 with one sentence (RF_E_USAGE): no such option, not a number, out of range (with the range). */
int rf_option_set(struct rf_options *o, const char *name, const char *value, struct rf_error *e);

/* As rf_option_set for a number, e.g. from the wire. */
int rf_option_set_number(struct rf_options *o, const struct rf_option *option, uint64_t value, struct rf_error *e);

/* "64 MiB", "on-demand", "1 MiB to 1 GiB, a power of two": for help, log and manual. Return `buffer`. */
const char *rf_option_format(const struct rf_option *option, uint64_t value, char *buffer, size_t length);
const char *rf_option_range(const struct rf_option *option, char *buffer, size_t length);

#endif
