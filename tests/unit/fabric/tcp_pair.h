// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef RAMFERRY_TESTS_UNIT_FABRIC_TCP_PAIR_H
#define RAMFERRY_TESTS_UNIT_FABRIC_TCP_PAIR_H

#include "tests/unit/fabric/suite.h"

extern const struct suite_fabric tcp_suite_fabric, tcp_file_suite_fabric;

#endif
