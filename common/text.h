// SPDX-License-Identifier: LGPL-2.1-or-later
/* Sentences often quote a peer, a QEMU or a user; none of them may write control characters to a terminal or a second
 * line to a log through us. */
#ifndef RAMFERRY_COMMON_TEXT_H
#define RAMFERRY_COMMON_TEXT_H

/* Make one line of `text`, in place: control characters become spaces; spaces and a full stop at its end go. */
void rf_one_line(char *text);

#endif
