// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/pins.h"

#include "common/checked.h"
#include "memory/pages.h"

static int data_of_block(struct rf_block *b, uint64_t *bytes, struct rf_error *e)
{
	struct rf_pages pages;

	if (rf_pages_init(&pages, b->npages, e))
		return -1;
	int result = b->ops->extents(b, (struct rf_run){0, b->npages}, &pages, e);
	*bytes += rf_pages_count(&pages, 0, b->npages) << RF_PAGE_SHIFT;
	rf_pages_free(&pages);
	return result;
}

int rf_pins_data(const struct rf_guest *g, uint64_t *bytes, struct rf_error *e)
{
	*bytes = 0;
	for (unsigned i = 0; i < g->nblocks; i++)
		if (data_of_block(g->blocks[i], bytes, e))
			return rf_wrap(e, "cannot find out how much memory the guest has in use");
	return 0;
}

/* The most that max-pinned could be here, in the halves of what was asked for; 0: nothing that it takes. */
static uint64_t most_pinned(struct rf_fabric *f, const struct rf_options *o, uint64_t bytes)
{
	uint64_t least = rf_max_u64(rf_option_find("max-pinned")->minimum, o->chunk_size_bytes), most = least;
	struct rf_error ignored;

	while (most < bytes / 2)
		most *= 2;
	while (most >= least && f->ops->can_pin(f, most, &ignored))
		most /= 2;
	return most >= least && most < bytes ? most : 0;
}

int rf_pins_check(struct rf_fabric *f, const struct rf_options *o, uint64_t bytes, struct rf_error *e)
{
	if (!f->ops->can_pin || o->register_mode == RF_REGISTER_ODP)
		return 0;
	if (o->max_pinned_bytes)
		bytes = rf_min_u64(bytes, o->max_pinned_bytes);
	if (!bytes || !f->ops->can_pin(f, bytes, e))
		return 0;
	e->code = RF_E_REFUSED;

	uint64_t most = most_pinned(f, o, bytes);

	if (most) {
		struct rf_error why = *e;
		rf_fail(e, RF_E_REFUSED, "%.350s; --max-pinned %lluM would do", why.text,
			(unsigned long long)(most >> 20));
	}
	return -1;
}

int rf_pins_check_on_demand(const struct rf_fabric *f, const struct rf_options *o, const char *side, struct rf_error *e)
{
	if (o->register_mode != RF_REGISTER_ODP || f->limits.on_demand)
		return 0;
	return rf_fail(e, RF_E_REFUSED,
		       "the %s cannot register memory on demand (--register odp), which takes an RDMA card that can: "
		       "take --register on-demand or pin-all",
		       side);
}

int rf_pins_check_guest(const struct rf_fabric *f, const struct rf_guest *g, const struct rf_options *o, bool staged,
			struct rf_error *e)
{
	static const char remedies[] = "a card would go on sending the old pages: use --register odp where the card "
				       "can, --source-memory staged, or tcp://";

	if (!f->limits.pins || !g->may_discard || staged || o->register_mode == RF_REGISTER_ODP)
		return 0;
	if (g->discarder[0])
		return rf_fail(e, RF_E_REFUSED, "%s gives guest memory back to the host, and %s", g->discarder,
			       remedies);
	return rf_fail(e, RF_E_REFUSED,
		       "the guest may give memory back to the host (rf_guest_set_discarder() was not called), and %s",
		       remedies);
}
