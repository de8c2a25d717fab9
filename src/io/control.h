/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of a recording: what `inftrace start`, `stop`, `dump`, `status` and `serve
 * --live` talk to.
 *
 * A UNIX socket of type SOCK_SEQPACKET, DIRECTORY/<pid of the recorder>.sock, mode 0600, for root
 * and the user that the recorder runs as. A connection carries one request and its answer. Each is
 * one message, and each message one JSON object:
 *
 *     client    {"command":"dump","reason":"p99"}     start, stop, dump, status, open
 *     recorder  {"taken":true}                        of start, stop and dump: it is working on it
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

#define CONTROL_MSG_MAX 256
#define CONTROL_REQUEST_MAX 4096        /* bytes of a request */
#define CONTROL_REASON_MAX 256          /* bytes of a reason, with the NUL */
#define CONTROL_REPLY_MAX (128 * 1024)  /* bytes of an answer: a message must fit a socket's buffer */
#define CONTROL_WAITING_MAX 16          /* clients whose dump is not written yet */
#define CONTROL_DEPTH_MAX 8             /* of JSON objects and arrays in each other */
#define CONTROL_CLIENT_S 2              /* for a client to send its request */
#define CONTROL_SUFFIX ".sock"

/* What a request asks for. Each adds to the reply, an object that it does not own, or returns
 * -errno with a reason of one line in msg (strerror's where that is left empty). */
struct control_ops {
	int (*start)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	int (*stop)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	/* -EINPROGRESS: control_done() follows, with this id. The reason is the client's text, ""
	 * for none, and UTF-8. */
	int (*dump)(void *arg, uint64_t id, const char *reason, struct json_object *reply,
		char msg[CONTROL_MSG_MAX]);
	void (*status)(void *arg, struct json_object *reply);
	/* Opens the trace that is being written for reading. *ret_fd is closed by the caller. */
	int (*open)(void *arg, int *ret_fd, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
};

struct control;

/*
 * Creates the socket in `directory`, or NULL: the one of control_directory(), and removes sockets
 * that recorders left behind when they were killed. On failure prints a warning: the recording can
 * go on without. -EADDRINUSE: a recorder of the same pid, in another container, has the name.
 */
int control_new(const struct control_ops *ops, void *arg, const char *directory,
	struct control **ret_control);

/* To be polled for input: control_serve() has something to do. -1 without a control. */
int control_fd(const struct control *c);

/* Does what is ready and never waits. Calls the ops. To be called once a second at least, for the
 * deadlines of clients. */
void control_serve(struct control *c);

/* Answers the client whose dump has that id: err 0, or -errno with a reason, as from the ops. Takes
 * over reply, which may be NULL. The client may have left meanwhile. */
void control_done(
	struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg);

/* Tells the clients that still wait that the recording has ended, and removes the socket. */
void control_free(struct control *c);

/*
 * Where the sockets of a user are: /run/inftrace for root; for ourselves $XDG_RUNTIME_DIR/inftrace,
 * if that is set; else /run/user/UID/inftrace. -ENAMETOOLONG.
 */
int control_directory(uid_t uid, char *buf, size_t size);

/* The JSON object that a message is, to be put by the caller. -EBADMSG with a reason of one line,
 * -ENOMEM. */
int control_parse(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX]);

#endif
