// SPDX-License-Identifier: LGPL-2.1-or-later
/* The public header serves C++ programs, and what it declares is found under its C name. */
#include <ramferry.h>

#include <cstring>

static int pause_guest(void *, int *was_running, char *, size_t)
{
	*was_running = 0;
	return 0;
}

static int resume_guest(void *, int, char *, size_t)
{
	return 0;
}

int main()
{
	rf_guest_ops ops = {};

	ops.size = sizeof ops;
	ops.pause = pause_guest;
	ops.resume = resume_guest;

	rf_guest *guest = rf_guest_new(&ops, nullptr);
	rf_migration *m = rf_migration_new(guest);
	bool good = guest && m && rf_set(m, "verify", "on") == RF_OK && rf_set(m, "verify", "often") == RF_USAGE &&
		    std::strlen(rf_error(m)) > 0;

	rf_on_progress(m, [](void *, const rf_progress *) {}, nullptr);
	rf_on_log(m, [](void *, rf_log_severity, const char *) {}, nullptr);
	good = good && rf_doctor(m, "nonsense", [](void *, const rf_finding *) {}, nullptr) == RF_USAGE;
	rf_migration_free(m);
	rf_guest_free(guest);
	return good ? 0 : 1;
}
