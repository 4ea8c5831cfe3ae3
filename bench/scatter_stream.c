// SPDX-License-Identifier: LGPL-2.1-or-later
/* One plain socket, 1 MiB writes, in the order of the memory. */
#include "bench/report.h"
#include "bench/scatter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static void stream_receiver(int fd, unsigned run)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	unsigned char *memory = scatter_map();

	scatter_need(bind(listener, (struct sockaddr *)&a, length) == 0 && listen(listener, 1) == 0, "listen");
	scatter_need(getsockname(listener, (struct sockaddr *)&a, &length) == 0, "getsockname");
	scatter_need(write(fd, &a, sizeof(a)) == sizeof(a), "write");
	int s = accept(listener, NULL, NULL);

	scatter_need(s >= 0, "accept");
	for (size_t at = 0; at < SCATTER_BYTES; at += PIECE)
		scatter_need(recv(s, memory + at, PIECE, MSG_WAITALL) == PIECE, "recv");
	scatter_need(send(s, "", 1, 0) == 1, "send");
	if (!scatter_stamped(memory, run))
		scatter_die("the stream arrived damaged");
}

double scatter_run_stream(const unsigned char *memory, unsigned run)
{
	struct sockaddr_in a;
	int fd, s = socket(AF_INET, SOCK_STREAM, 0);
	pid_t pid = scatter_start(stream_receiver, run, &fd);
	char byte;

	scatter_need(read(fd, &a, sizeof(a)) == sizeof(a), "read");
	scatter_need(connect(s, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	int64_t start = report_now_ns();

	for (size_t at = 0; at < SCATTER_BYTES; at += PIECE)
		scatter_need(send(s, memory + at, PIECE, 0) == PIECE, "send");
	scatter_need(recv(s, &byte, 1, 0) == 1, "recv");
	int64_t end = report_now_ns();

	scatter_end(pid, fd);
	close(s);
	return scatter_rate(end - start);
}
