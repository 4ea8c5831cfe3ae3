// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which tracker serves this guest. The exact and cheap ones come first; hash, which always works, comes last. */
#include "memory/tracker.h"

#include "common/options.h"
#include "memory/huge.h"

#include <assert.h>

static const struct rf_tracker_ops *const in_order[] = {&rf_track_wp, &rf_track_callback, &rf_track_soft_dirty,
							&rf_track_hash};

static const struct rf_tracker_ops *named(unsigned choice)
{
	switch (choice) {
	case RF_TRACKER_WP_ASYNC:
		return &rf_track_wp;
	case RF_TRACKER_SOFT_DIRTY:
		return &rf_track_soft_dirty;
	case RF_TRACKER_HASH:
		return &rf_track_hash;
	case RF_TRACKER_CALLBACK:
		return &rf_track_callback;
	}
	return NULL;
}

/* Huge pages are worth another way of working. */
static const struct rf_tracker_ops *made_for(struct rf_guest *g, const struct rf_tracker_ops *ops)
{
	const struct rf_block *huge = rf_guest_huge_block(g);

	if (ops != &rf_track_wp || !huge)
		return ops;
	if (g->needs_drain) { /* such writes differ only when they have ended, and are told of when they begin */
		rf_log(g->log, RF_LOG_INFO,
		       "block \"%s\" %s pages of 2 MiB, which are sent whole because of the guest's direct I/O",
		       huge->name, huge->page_bytes > RF_PAGE_BYTES ? "has" : "may have");
		return ops;
	}
	rf_log(g->log, RF_LOG_INFO,
	       "block \"%s\" %s pages of 2 MiB: what is written there is looked for in pieces of 4 KiB, and sent from "
	       "copies",
	       huge->name, huge->page_bytes > RF_PAGE_BYTES ? "has" : "may have");
	return &rf_track_wp_huge;
}

static int may_be_chosen(struct rf_guest *g, const struct rf_tracker_ops *ops, struct rf_error *why)
{
	return ops->probe(g, why) || (ops->by_itself && ops->by_itself(g, why));
}

static int choose_first(struct rf_guest *g, const struct rf_tracker_ops **out, struct rf_error *e)
{
	struct rf_error why = {0};

	for (unsigned i = 0; i < sizeof(in_order) / sizeof(in_order[0]); i++) {
		if (!may_be_chosen(g, in_order[i], &why)) {
			/* Worth a word of its own only where it is not what everybody has. */
			rf_log(g->log, i ? RF_LOG_INFO : RF_LOG_DEBUG, "writes of the guest are tracked by %s",
			       in_order[i]->name);
			*out = made_for(g, in_order[i]);
			return 0;
		}
		rf_log(g->log, RF_LOG_INFO, "tracker %s cannot serve here: %s", in_order[i]->name, why.text);
	}
	return rf_fail(e, RF_E_REFUSED, "no tracker can serve here; the last one, because %s", why.text);
}

int rf_tracker_choose(struct rf_guest *g, unsigned choice, const struct rf_tracker_ops **out, struct rf_error *e)
{
	const struct rf_tracker_ops *wanted = named(choice);
	struct rf_error why = {0};

	assert(wanted || choice == RF_TRACKER_AUTO);
	if (g->own_tracker) {
		if (wanted && wanted != g->own_tracker)
			return rf_fail(e, RF_E_REFUSED,
				       "this guest tracks its writes itself, tracker %s cannot serve it", wanted->name);
		rf_log(g->log, RF_LOG_DEBUG, "writes of the guest are tracked by %s, its own", g->own_tracker->name);
		*out = g->own_tracker;
		return 0;
	}
	if (!wanted)
		return choose_first(g, out, e);
	if (wanted->probe(g, &why))
		return rf_fail(e, RF_E_REFUSED, "tracker %s cannot serve here: %s", wanted->name, why.text);
	rf_log(g->log, RF_LOG_DEBUG, "writes of the guest are tracked by %s, as asked for", wanted->name);
	if (wanted->by_itself && wanted->by_itself(g, &why))
		rf_log(g->log, RF_LOG_WARNING, "tracker %s was asked for, and may lose writes here: %s", wanted->name,
		       why.text);
	*out = made_for(g, wanted);
	return 0;
}

int rf_tracker_open(struct rf_guest *g, unsigned choice, const struct rf_tracker_ops *chosen, struct rf_tracker **out,
		    struct rf_error *e)
{
	if (!chosen->open(g, out, e))
		return 0;
	if (choice != RF_TRACKER_AUTO || chosen == g->own_tracker || chosen == &rf_track_hash)
		return -1;
	rf_log(g->log, RF_LOG_WARNING,
	       "tracker %s cannot serve here: %s; hash reads all of the memory in every round instead", chosen->name,
	       e->text);
	return rf_track_hash.open(g, out, e);
}
