// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/engine.h"

void rf_engine_free(struct rf_engine *engine)
{
	if (engine->free_side)
		engine->free_side(engine->side);
	engine->side = NULL;
	engine->free_side = NULL;
}
