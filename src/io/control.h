/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of a recording: what `inftrace start`, `stop`, `dump`, `status` and `serve
 * --live` talk to.
 *
 * A UNIX socket of type SOCK_SEQPACKET, DIRECTORY/<pid of the recorder>.sock, mode 0600, for root
 * and the user that the recorder runs as. A connection carries one request and its answer. Each is
 * one message, and each message one JSON object:
 *
 *     client    {"command":"dump","reason":"p99","last":"2s"}     start, stop, dump, status, open
 *     recorder  {"taken":true}                        for start, stop and dump: work has begun
 *     recorder  {"ok":true,...} or {"ok":false,"error":"..."}
 *
 * The answer to `open` carries a descriptor of the trace that is being written, for reading. A path
 * would be resolved by the client, with the client's privileges.
 *
 * The recorder reads the request of one client at a time, and never waits for one: a client has
 * CONTROL_CLIENT_S to send its request, and an answer that its socket does not take is dropped.
 */
#ifndef INFTRACE_CONTROL_H
#define INFTRACE_CONTROL_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/parse.h"

#define CONTROL_MSG_MAX 256
#define CONTROL_REQUEST_MAX 4096        /* bytes of a request */
#define CONTROL_REASON_MAX 256          /* bytes of a reason, with the NUL */
#define CONTROL_REPLY_MAX (128 * 1024)  /* bytes of an answer: a message must fit into a socket's buffer */
#define CONTROL_WAITING_MAX 16          /* clients whose dump is not written yet */
#define CONTROL_DEPTH_MAX 8             /* nesting of JSON objects and arrays */
#define CONTROL_CLIENT_S 2              /* seconds a client has to send its request */
#define CONTROL_SUFFIX ".sock"

/* What a request asks for. Each function fills in the reply, an object that it does not own, or
 * returns -errno with a reason of one line in msg (if that is left empty: strerror's). */
struct control_ops {
	int (*start)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	int (*stop)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	/* -EINPROGRESS: control_done() will follow, with this id. The reason is the client's text
	 * in UTF-8, "" for none. */
	int (*dump)(void *arg, uint64_t id, const char *reason, struct last last, struct json_object *reply,
		char msg[CONTROL_MSG_MAX]);
	void (*status)(void *arg, struct json_object *reply);
	/* Opens for reading the trace that is being written. The caller closes *ret_fd. */
	int (*open)(void *arg, int *ret_fd, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
};

struct control;

/*
 * Creates the socket in `directory` (NULL: that of control_directory()) and removes sockets left
 * behind by recorders that were killed. On failure prints a warning, since the recording can go on
 * without it. -EADDRINUSE: a recorder with the same pid, in another container, uses the name.
 */
int control_new(const struct control_ops *ops, void *arg, const char *directory,
	struct control **ret_control);

/* The descriptor to poll for input: control_serve() has work then. -1 without a control. */
int control_fd(const struct control *c);

/* Does what is ready and never waits. Calls the ops. Must be called at least once a second, for the
 * deadlines of clients. */
void control_serve(struct control *c);

/* Answers the client whose dump has that id: err 0, or -errno with a reason, as from the ops. Takes
 * over reply, which may be NULL. The client may be gone by then. */
void control_done(
	struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg);

/* Tells the clients that are still waiting that the recording has ended, and removes the socket. */
void control_free(struct control *c);

/*
 * Where the sockets of a user are: /run/inftrace for root; otherwise $XDG_RUNTIME_DIR/inftrace if
 * the user is the caller and that is set, else /run/user/UID/inftrace. -ENAMETOOLONG.
 */
int control_directory(uid_t uid, char *buf, size_t size);

/* XDG_RUNTIME_DIR of the service in contrib/: made by systemd, and owned by the user as whom the service runs. */
#define CONTROL_SERVICE_RUNTIME "/run/inftrace-recorder"

/* Parses a message, which is one JSON object, to be put by the caller. -EBADMSG with a reason of
 * one line, -ENOMEM. */
int control_parse(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX]);

#endif
