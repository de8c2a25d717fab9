/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of a recording: what `inftrace start`, `stop`, `dump` and `status` talk to.
 *
 * A UNIX stream socket FOLDER/<pid of the recorder>.sock of mode 0600, for root and the user that
 * the recorder runs as. A connection carries one request and its answer, JSON objects on a line
 * each:
 *
 *     > {"command":"dump","reason":"p99"}          start, stop, dump, status
 *     < {"taken":true}                             not of status; there may be more lines without
 * "ok" < {"ok":true,...} or {"ok":false,"error":"..."}
 *
 * Nothing here waits for a client, and what one can make the recorder keep is bounded.
 */
#ifndef INFTRACE_CONTROL_H
#define INFTRACE_CONTROL_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

#define CONTROL_MSG_MAX 256
#define CONTROL_REQUEST_MAX 4096        /* bytes of a request, with its newline */
#define CONTROL_REASON_MAX 256          /* bytes of a reason, with the NUL */
#define CONTROL_REPLY_MAX (1024 * 1024) /* bytes of all lines of an answer that a client reads */
#define CONTROL_CLIENTS_MAX 8           /* at a time; further ones are told to try again */
#define CONTROL_CLIENT_S 5 /* for a client to say what it wants, and to take its answer */
#define CONTROL_SUFFIX ".sock"

/* What a request wants done. Each adds to the reply, an object that it does not own, or returns
 * -errno with a reason of one line in msg (strerror's where that is left empty). */
struct control_ops {
	int (*start)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	int (*stop)(void *arg, struct json_object *reply, char msg[CONTROL_MSG_MAX]);
	/* -EINPROGRESS: control_done() follows, with this id. The reason is the client's text, ""
	 * for none, and UTF-8. */
	int (*dump)(void *arg, uint64_t id, const char *reason, struct json_object *reply,
		char msg[CONTROL_MSG_MAX]);
	void (*status)(void *arg, struct json_object *reply);
};

struct control;

/*
 * Creates the socket in `folder`, or NULL: the one of control_folder(), and removes sockets that
 * recorders left behind when they were killed. On failure prints a warning: the recording can go on
 * without. -EADDRINUSE: a recorder of the same pid, in another container, has the name.
 */
int control_new(
	const struct control_ops *ops, void *arg, const char *folder, struct control **ret_control);

/* To be polled for input: control_serve() has something to do. -1 without a control. */
int control_fd(const struct control *c);

/* Does what is ready, deadlines of clients included, and never waits. Calls the ops. */
void control_serve(struct control *c);

/* What became of the dump of that id: err 0 or -errno with a reason, as of the ops. Takes over
 * reply, which may be NULL. The client may have left meanwhile. */
void control_done(
	struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg);

/* Tells who still waits that the recording has ended, and removes the socket. */
void control_free(struct control *c);

/*
 * Where the sockets of this user are: /run/inftrace for root, else $XDG_RUNTIME_DIR/inftrace, or
 * /run/user/UID/inftrace without that. -ENAMETOOLONG.
 */
int control_folder(char *buf, size_t size);

/* The JSON object that the line is, to be put by the caller. -EBADMSG with a reason of one line,
 * -ENOMEM. */
int control_parse_line(
	const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX]);

#endif
