// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/agree.h"

#include <string.h>

static const uint64_t MAGIC = 0x59525245464d4152ull; /* "RAMFERRY" */

/* ---- HELLO ---- */

/* What else a source tells by a name and a number: a destination that does not know the name passes it over. */
static const char DATA_BYTES[] = "data-bytes", KEYS_MAY_FAIL[] = "keys-may-fail";

static void put_number(struct rf_out *o, const char *name, uint64_t value)
{
	rf_put_text(o, name);
	rf_put_u64(o, value);
}

static void put_options(struct rf_peer *p, struct rf_out *o, const struct rf_options *options)
{
	uint16_t n = p->is_source ? 2 : 0;
	for (size_t i = 0; i < rf_option_count(); i++)
		n += !!(rf_option_at(i)->sides & RF_OPT_WIRE);
	rf_put_u16(o, n);
	for (size_t i = 0; i < rf_option_count(); i++)
		if (rf_option_at(i)->sides & RF_OPT_WIRE)
			put_number(o, rf_option_at(i)->name, rf_option_value(options, rf_option_at(i)));
	if (p->is_source) {
		put_number(o, DATA_BYTES, p->data_bytes);
		put_number(o, KEYS_MAY_FAIL, 1);
	}
}

int rf_agree_hello(struct rf_peer *p, const char *facts, struct rf_error *e)
{
	static const struct rf_options none;
	struct rf_out *o = rf_peer_begin(p, RF_MSG_HELLO);
	rf_put_u64(o, MAGIC);
	rf_put_u16(o, RF_WIRE_VERSION);
	rf_put_u16(o, RF_WIRE_VERSION_LOWEST);
	rf_put_bytes(o, p->engine->id, sizeof(p->engine->id));
	rf_put_u32(o, RF_PAGE_BYTES);
	rf_put_u64(o, 0); /* a nonce, once there is AUTH */
	rf_put_u64(o, 0);
	rf_put_text(o, p->engine->name ? p->engine->name : "");
	rf_put_text(o, facts);
	put_options(p, o, p->is_source ? p->engine->options : &none);
	return rf_peer_send(p, RF_LANE_CONTROL, e);
}

static int check_version(struct rf_in *in, struct rf_error *e)
{
	uint64_t magic = rf_get_u64(in);
	unsigned version = rf_get_u16(in), lowest = rf_get_u16(in);
	if (in->bad || magic != MAGIC)
		return rf_fail(e, RF_E_REFUSED, "the peer is not ramferry");
	if (version < RF_WIRE_VERSION_LOWEST || lowest > RF_WIRE_VERSION || lowest > version)
		return rf_fail(
		    e, RF_E_REFUSED,
		    "the source speaks version %u (at the lowest %u) of the protocol, the destination %d (%d)", version,
		    lowest, RF_WIRE_VERSION, RF_WIRE_VERSION_LOWEST);
	return 0;
}

static int take_options(struct rf_peer *p, struct rf_in *in, struct rf_error *e)
{
	unsigned n = rf_get_u16(in);
	for (unsigned i = 0; i < n && !in->bad; i++) {
		char name[64];
		rf_get_text(in, name, sizeof(name));
		uint64_t value = rf_get_u64(in);
		const struct rf_option *option = rf_option_find(name);
		if (in->bad)
			break;
		if (!p->is_source && !strcmp(name, DATA_BYTES))
			p->data_bytes = value;
		if (!p->is_source && !strcmp(name, KEYS_MAY_FAIL))
			p->keys_may_fail = value;
		/* What a newer source may add and this side does not know cannot matter to it: the version says so. */
		if (p->is_source || !option || !(option->sides & RF_OPT_WIRE))
			continue;
		if (rf_option_set_number(p->engine->options, option, value, e)) {
			e->code = RF_E_REFUSED;
			return rf_wrap(e, "the source's options");
		}
	}
	return 0;
}

/* The value of `key` in a text of "key=value" lines; its length in *length. NULL: no such line. */
static const char *fact(const char *facts, const char *key, size_t key_length, size_t *length)
{
	for (const char *line = facts; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0)
		if (!strncmp(line, key, key_length) && line[key_length] == '=') {
			const char *value = line + key_length + 1;
			*length = strcspn(value, "\n");
			return value;
		}
	return NULL;
}

static int compare_facts(const char *theirs, const char *ours, struct rf_error *e)
{
	for (const char *line = ours; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
		size_t key = strcspn(line, "=\n"), length, other;
		if (line[key] != '=')
			continue;
		const char *here = line + key + 1, *there = fact(theirs, line, key, &other);
		length = strcspn(here, "\n");
		if (there && (other != length || memcmp(there, here, length)))
			return rf_fail(e, RF_E_REFUSED, "%.*s is %.*s at the source and %.*s at the destination",
				       (int)key, line, (int)other, there, (int)length, here);
	}
	return 0;
}

int rf_agree_take_hello(struct rf_peer *p, const char *facts, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	char name[256], theirs[RF_FACTS_BYTES];

	if (check_version(&in, e))
		return -1;
	const void *id = rf_get_bytes(&in, sizeof(p->engine->id));
	uint32_t page_bytes = rf_get_u32(&in);
	rf_get_bytes(&in, 16);
	rf_get_text(&in, name, sizeof(name));
	rf_get_text(&in, theirs, sizeof(theirs));
	if (take_options(p, &in, e) || rf_in_end(&in, m, e))
		return -1;
	if (page_bytes != RF_PAGE_BYTES)
		return rf_fail(e, RF_E_REFUSED, "the source has pages of %u bytes, the destination of %d", page_bytes,
			       RF_PAGE_BYTES);
	if (p->is_source) {
		if (memcmp(id, p->engine->id, sizeof(p->engine->id)))
			return rf_fail(e, RF_E_REFUSED, "the peer answers for another migration");
	} else {
		memcpy(p->engine->id, id, sizeof(p->engine->id));
		if (compare_facts(theirs, facts, e))
			return -1;
	}
	rf_log(p->engine->log, RF_LOG_INFO, "the other side is %s", *name ? name : "a host without a name");
	return 0;
}

/* ---- BLOCKS ---- */

int rf_agree_blocks(struct rf_peer *p, struct rf_error *e)
{
	struct rf_guest *g = p->engine->guest;
	struct rf_out *o = rf_peer_begin(p, RF_MSG_BLOCKS);
	rf_put_u32(o, g->nblocks);
	for (unsigned i = 0; i < g->nblocks; i++) {
		const struct rf_block *b = g->blocks[i];
		if (rf_out_room(o) < 2 + strlen(b->name) + 16)
			return rf_fail(e, RF_E_REFUSED, "the guest has more blocks (%u) than a message holds",
				       g->nblocks);
		rf_put_text(o, b->name);
		rf_put_u64(o, b->npages);
		rf_put_u64(o, b->page_bytes);
	}
	return rf_peer_send(p, RF_LANE_CONTROL, e);
}

int rf_agree_take_blocks(struct rf_peer *p, const struct rf_message *m, struct rf_error *e)
{
	struct rf_guest *g = p->engine->guest;
	struct rf_in in = rf_in_body(m);
	uint32_t n = rf_get_u32(&in);

	if (n != g->nblocks)
		return rf_fail(e, RF_E_REFUSED,
			       "the guest has %u memory blocks at the source and %u at the destination", n, g->nblocks);
	for (unsigned i = 0; i < n; i++) {
		char name[RF_BLOCK_NAME_BYTES];
		rf_get_text(&in, name, sizeof(name));
		uint64_t npages = rf_get_u64(&in), page_bytes = rf_get_u64(&in);
		const struct rf_block *b = g->blocks[i];
		if (in.bad)
			break;
		if (strcmp(name, b->name))
			return rf_fail(e, RF_E_REFUSED,
				       "memory block %u is called %s at the source and %s at the destination", i, name,
				       b->name);
		if (npages != b->npages)
			return rf_fail(e, RF_E_REFUSED,
				       "memory block %s has %llu MiB at the source and %llu MiB at the destination",
				       name, (unsigned long long)npages >> 8, (unsigned long long)b->npages >> 8);
		if (page_bytes != b->page_bytes)
			rf_log(p->engine->log, RF_LOG_INFO,
			       "memory block %s has pages of %llu KiB at the source and %llu here", name,
			       (unsigned long long)page_bytes >> 10, (unsigned long long)b->page_bytes >> 10);
	}
	return rf_in_end(&in, m, e);
}

void rf_agree_refuse(struct rf_peer *p, const struct rf_error *why)
{
	if (p->lost || p->aborted)
		return;
	struct rf_out *o = rf_peer_begin(p, RF_MSG_REFUSED);
	rf_put_text(o, why->text);
	rf_peer_send(p, RF_LANE_CONTROL, NULL);
}
