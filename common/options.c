// SPDX-License-Identifier: LGPL-2.1-or-later
/* The one table of options: see options.h. A new option is one field of struct rf_options and one line here; the
 * command line, its help, the manual, rf_set() and HELLO follow. */
#include "common/options.h"

#include "common/checked.h"
#include "common/sizes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define MS  UINT64_C(1000000)
#define S   (1000 * MS)
#define H   (3600 * S)

static const char *const register_names[] = {
    [RF_REGISTER_ON_DEMAND] = "on-demand", [RF_REGISTER_PIN_ALL] = "pin-all", [RF_REGISTER_ODP] = "odp", NULL};
static const char *const switchover_names[] = {
    [RF_SWITCHOVER_LOW_POINT] = "low-point", [RF_SWITCHOVER_THRESHOLD] = "threshold", NULL};
static const char *const on_stall_names[] = {
    [RF_ON_STALL_WAIT] = "wait", [RF_ON_STALL_FORCE] = "force", [RF_ON_STALL_ABORT] = "abort", NULL};
static const char *const source_memory_names[] = {
    [RF_SOURCE_AUTO] = "auto", [RF_SOURCE_DIRECT] = "direct", [RF_SOURCE_STAGED] = "staged", NULL};
static const char *const tracker_names[] = {[RF_TRACKER_AUTO] = "auto",
					    [RF_TRACKER_WP_ASYNC] = "wp-async",
					    [RF_TRACKER_SOFT_DIRTY] = "soft-dirty",
					    [RF_TRACKER_HASH] = "hash",
					    [RF_TRACKER_CALLBACK] = "callback",
					    NULL};

#define FIELD(name)             .offset = offsetof(struct rf_options, name)
#define RANGE(low, high, start) .minimum = (low), .maximum = (high), .initial = (start)
#define ZERO(meaning)           .zero_allowed = true, .zero_means = (meaning)
#define UNSET(meaning)          .initial = RF_OPTION_UNSET, .unset_means = (meaning)
#define CHOICE(names)           .choices = (names), .maximum = sizeof(names) / sizeof((names)[0]) - 2

enum {
	SOURCE = RF_OPT_SOURCE,
	BOTH = RF_OPT_SOURCE | RF_OPT_DESTINATION,
	TOLD = RF_OPT_SOURCE | RF_OPT_WIRE,
};

static const struct rf_option table[] = {
    {"chunk-size", RF_OPT_SIZE, TOLD | RF_OPT_POWER_OF_TWO, FIELD(chunk_size_bytes), RANGE(MIB, GIB, 64 * MIB),
     .help = "Register guest memory in chunks of this size"},
    {"register", RF_OPT_CHOICE, TOLD, FIELD(register_mode), CHOICE(register_names),
     .help = "Register a chunk when the first page of it is due, or all memory before the first round, or let the "
	     "RDMA card follow the page tables, which pins nothing and needs a card that can (odp)"},
    {"register-ahead", RF_OPT_SIZE, TOLD, FIELD(register_ahead_bytes), RANGE(MIB, 64 * GIB, 256 * MIB),
     ZERO("only when the writer needs it"), .help = "Ask for registrations this far in front of the writer"},
    {"writes-per-chunk", RF_OPT_COUNT, SOURCE, FIELD(writes_per_chunk), RANGE(1, 65536, 0), ZERO("no limit"),
     .help = "Let at most this many writes to one chunk be in flight (1 is what QEMU does, for measuring)"},
    {"switchover", RF_OPT_CHOICE, SOURCE, FIELD(switchover), CHOICE(switchover_names),
     .help = "Pause the guest when no round makes the rest much smaller, or as soon as it fits the downtime limit"},
    {"queue-depth", RF_OPT_COUNT, SOURCE, FIELD(queue_depth), RANGE(16, 65536, 1024),
     .help = "Keep at most this many writes in flight on each lane"},
    {"max-write", RF_OPT_SIZE, TOLD | RF_OPT_POWER_OF_TWO, FIELD(max_write_bytes), RANGE(4 * KIB, GIB, MIB),
     .help = "Split runs of pages into writes of at most this size"},
    {"lanes", RF_OPT_COUNT, TOLD, FIELD(lanes), RANGE(1, 64, 0), ZERO("from the CPU count"),
     .help = "Send memory over this many connections"},
    {"workers", RF_OPT_COUNT, BOTH, FIELD(workers), RANGE(1, 256, 0), ZERO("from the CPU count"),
     .help = "Use this many threads for registrations, scans and digests"},
    {"max-bandwidth", RF_OPT_RATE, SOURCE, FIELD(max_bandwidth), RANGE(MIB, TIB, 0), ZERO("no limit"),
     .help = "Send no faster than this, in bytes per second unless the unit says bit"},
    {"max-pinned", RF_OPT_SIZE, TOLD, FIELD(max_pinned_bytes), RANGE(64 * MIB, 64 * TIB, 0), ZERO("no limit"),
     .help = "Keep at most this much memory registered at once, on either side"},
    {"source-memory", RF_OPT_CHOICE, SOURCE, FIELD(source_memory), CHOICE(source_memory_names),
     .help = "Send pages from where the guest has them, or by way of a buffer"},
    {"tracker", RF_OPT_CHOICE, SOURCE, FIELD(tracker), CHOICE(tracker_names),
     .help = "How to find out which pages the guest has written"},
    {"downtime-limit", RF_OPT_DURATION, SOURCE, FIELD(downtime_limit_ns), RANGE(MS, 2000 * S, 300 * MS),
     .help = "Pause the guest only when it is expected to stand still no longer than this"},
    {"on-stall", RF_OPT_CHOICE, SOURCE, FIELD(on_stall), CHOICE(on_stall_names),
     .help = "What to do when the guest writes faster than it can be sent: go on, pause it all the same, or give up"},
    {"timeout", RF_OPT_DURATION, SOURCE, FIELD(timeout_ns), RANGE(MS, 720 * H, 0), ZERO("none"),
     .help = "Give up when the guest has not been paused after this time"},
    {"connect-timeout", RF_OPT_DURATION, SOURCE, FIELD(connect_timeout_ns), RANGE(MS, H, 10 * S),
     .help = "Give up when no receiver has answered after this time"},
    {"peer-timeout", RF_OPT_DURATION, BOTH | RF_OPT_WIRE, FIELD(peer_timeout_ns), RANGE(S, H, 5 * S),
     .help = "Take the other side for dead after this much silence"},
    {"resolve-timeout", RF_OPT_DURATION, BOTH | RF_OPT_WIRE, FIELD(resolve_timeout_ns), RANGE(S, 24 * H, 60 * S),
     .help = "Wait this long for the other side in a state that may not be left alone"},
    {"verify", RF_OPT_FLAG, TOLD, FIELD(verify), RANGE(0, 1, 0),
     .help = "Compare the memory of both sides while the guest is paused, and give up if it differs"},
    {"device", RF_OPT_NAME, BOTH, FIELD(device), .unset_means = "the one that the address belongs to",
     .help = "Use this RDMA device, as the command `rdma link` names it"},
    {"gid-index", RF_OPT_COUNT, BOTH, FIELD(gid_index), .maximum = 255, UNSET("the one that the address belongs to"),
     .help = "Use this entry of the RDMA port's table of addresses"},
    {"traffic-class", RF_OPT_COUNT, BOTH, FIELD(traffic_class), RANGE(0, 255, 0),
     .help = "Mark what this side sends over RDMA with this traffic class"},
    {"rdma-timeout", RF_OPT_DURATION, BOTH, FIELD(rdma_timeout_ns), RANGE(MS, 60 * S, 0), ZERO("choose"),
     .help = "Let the RDMA card wait this long for an acknowledgement before it sends again"},
    {"rdma-retry", RF_OPT_COUNT, BOTH, FIELD(rdma_retry), RANGE(0, 7, 7),
     .help = "Let the RDMA card send again this often before the connection counts as lost"},
    {"signal-interval", RF_OPT_COUNT, SOURCE, FIELD(signal_interval), RANGE(1, 65536, 0), ZERO("choose"),
     .help = "Let the RDMA card report every so many writes, and the last of a batch"},
};

enum { NAMES = 1 }; /* lines of RF_OPT_NAME */

size_t rf_option_count(void)
{
	return sizeof(table) / sizeof(table[0]);
}

const struct rf_option *rf_option_at(size_t index)
{
	assert(index < rf_option_count());
	return &table[index];
}

const struct rf_option *rf_option_find(const char *name)
{
	for (size_t i = 0; name && i < rf_option_count(); i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}

/* Every field but a name is a uint64_t at its `offset`; copying keeps the compiler's view of the struct intact. */
static void store(struct rf_options *o, const struct rf_option *option, uint64_t value)
{
	memcpy((char *)o + option->offset, &value, sizeof(value));
}

uint64_t rf_option_value(const struct rf_options *o, const struct rf_option *option)
{
	uint64_t value;

	assert(option->type != RF_OPT_NAME);
	memcpy(&value, (const char *)o + option->offset, sizeof(value));
	return value;
}

void rf_options_init(struct rf_options *o)
{
	_Static_assert(sizeof(*o) ==
			   (sizeof(table) / sizeof(table[0]) - NAMES) * sizeof(uint64_t) + NAMES * RF_OPTION_NAME_BYTES,
		       "every field has its line");
	*o = (struct rf_options){0};
	for (size_t i = 0; i < rf_option_count(); i++)
		if (table[i].type != RF_OPT_NAME)
			store(o, &table[i], table[i].initial);
}

static bool value_fits(const struct rf_option *option, uint64_t value)
{
	if (!value && option->zero_allowed)
		return true;
	if (value < option->minimum || value > option->maximum)
		return false;
	return !(option->sides & RF_OPT_POWER_OF_TWO) || rf_is_power_of_two(value);
}

static int parse_choice(const struct rf_option *option, const char *text, uint64_t *value, struct rf_error *e)
{
	for (uint64_t i = 0; option->choices[i]; i++) {
		if (strcmp(option->choices[i], text) == 0) {
			*value = i;
			return 0;
		}
	}
	return rf_fail(e, RF_E_USAGE, "\"%.60s\" is neither", text);
}

static int parse_flag(const char *text, uint64_t *value, struct rf_error *e)
{
	static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(words[i], text) == 0) {
			*value = i % 2;
			return 0;
		}
	}
	return rf_fail(e, RF_E_USAGE, "\"%.60s\" is neither", text);
}

static int parse_value(const struct rf_option *option, const char *text, uint64_t *value, struct rf_error *e)
{
	if (!text)
		return rf_fail(e, RF_E_USAGE, "no value was given");
	switch (option->type) {
	case RF_OPT_SIZE:
		return rf_parse_size(text, value, e);
	case RF_OPT_RATE:
		return rf_parse_rate(text, value, e);
	case RF_OPT_DURATION:
		return rf_parse_duration(text, value, e);
	case RF_OPT_COUNT:
		return rf_parse_count(text, value, e);
	case RF_OPT_CHOICE:
		return parse_choice(option, text, value, e);
	case RF_OPT_FLAG:
		return parse_flag(text, value, e);
	case RF_OPT_NAME:
		break;
	}
	assert(!"every type has its parser");
	return -1;
}

/* What it names is looked for later; here only what cannot be a name is told. */
static int set_name(struct rf_options *o, const struct rf_option *option, const char *text, struct rf_error *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	char range[160];

	rf_option_range(option, range, sizeof(range));
	if (!text)
		return rf_fail(e, RF_E_USAGE, "%s must be %s: no value was given", option->name, range);
	if (!text[0] || strlen(text) >= RF_OPTION_NAME_BYTES || text[strspn(text, allowed)])
		return rf_fail(e, RF_E_USAGE, "%s must be %s: \"%.60s\" is not", option->name, range, text);
	memset((char *)o + option->offset, 0, RF_OPTION_NAME_BYTES);
	memcpy((char *)o + option->offset, text, strlen(text));
	return 0;
}

int rf_option_set(struct rf_options *o, const char *name, const char *value, struct rf_error *e)
{
	const struct rf_option *option = rf_option_find(name);
	char range[160];
	uint64_t number = 0;

	if (!option)
		return rf_fail(e, RF_E_USAGE, "there is no option \"%.60s\"", name ? name : "");
	if (option->type == RF_OPT_NAME)
		return set_name(o, option, value, e);
	rf_option_range(option, range, sizeof(range));
	if (parse_value(option, value, &number, e) < 0)
		return rf_wrap(e, "%s must be %s", name, range);
	if (!value_fits(option, number))
		return rf_fail(e, RF_E_USAGE, "%s must be %s: \"%.60s\" is not", name, range, value);
	store(o, option, number);
	return 0;
}

int rf_option_set_number(struct rf_options *o, const struct rf_option *option, uint64_t value, struct rf_error *e)
{
	char range[160];

	assert(option->type != RF_OPT_NAME);
	if (!value_fits(option, value))
		return rf_fail(e, RF_E_USAGE, "%s must be %s: %llu is not", option->name,
			       rf_option_range(option, range, sizeof(range)), (unsigned long long)value);
	store(o, option, value);
	return 0;
}

const char *rf_option_format(const struct rf_option *option, uint64_t value, char *buffer, size_t length)
{
	char size[40];

	if (option->unset_means && (value == RF_OPTION_UNSET || option->type == RF_OPT_NAME)) {
		snprintf(buffer, length, "%s", option->unset_means);
		return buffer;
	}
	if (!value && option->zero_allowed) {
		snprintf(buffer, length, "0 (%s)", option->zero_means);
		return buffer;
	}
	switch (option->type) {
	case RF_OPT_SIZE:
		return rf_format_size(value, buffer, length);
	case RF_OPT_RATE:
		snprintf(buffer, length, "%s/s", rf_format_size(value, size, sizeof(size)));
		return buffer;
	case RF_OPT_DURATION:
		return rf_format_duration(value, buffer, length);
	case RF_OPT_COUNT:
		snprintf(buffer, length, "%llu", (unsigned long long)value);
		return buffer;
	case RF_OPT_CHOICE:
		snprintf(buffer, length, "%s", value <= option->maximum ? option->choices[value] : "?");
		return buffer;
	case RF_OPT_FLAG:
		snprintf(buffer, length, "%s", value ? "on" : "off");
		return buffer;
	case RF_OPT_NAME:
		break;
	}
	return buffer;
}

/* "a or b", "a, b or c" */
static void join_choices(const struct rf_option *option, char *buffer, size_t length)
{
	size_t used = 0;

	buffer[0] = '\0';
	for (uint64_t i = 0; i <= option->maximum && used < length; i++) {
		const char *between = !i ? "" : i == option->maximum ? " or " : ", ";
		used += (size_t)snprintf(buffer + used, length - used, "%s%s", between, option->choices[i]);
	}
}

const char *rf_option_range(const struct rf_option *option, char *buffer, size_t length)
{
	char low[40], high[40], zero[80] = "";

	if (option->type == RF_OPT_FLAG) {
		snprintf(buffer, length, "on or off");
		return buffer;
	}
	if (option->type == RF_OPT_NAME) {
		snprintf(buffer, length, "a name of at most %d letters, digits and any of . _ -",
			 RF_OPTION_NAME_BYTES - 1);
		return buffer;
	}
	if (option->type == RF_OPT_CHOICE) {
		join_choices(option, buffer, length);
		return buffer;
	}
	if (option->zero_allowed)
		snprintf(zero, sizeof(zero), "0 (%s) or ", option->zero_means);
	snprintf(buffer, length, "%s%s to %s%s", zero, rf_option_format(option, option->minimum, low, sizeof(low)),
		 rf_option_format(option, option->maximum, high, sizeof(high)),
		 option->sides & RF_OPT_POWER_OF_TWO ? ", a power of two" : "");
	return buffer;
}
