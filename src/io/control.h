/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of a recording: what `inftrace start`, `stop`, `dump`, `status` and `serve --live` talk to.
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
 */
#ifndef INFTRACE_CONTROL_H
#define INFTRACE_CONTROL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "util/parse.h"

#define CONTROL_MSG_MAX 256
#define CONTROL_REQUEST_MAX 4096       /* bytes of a request */
#define CONTROL_REASON_MAX 256         /* bytes of a reason, with the NUL */
#define CONTROL_REPLY_MAX (128 * 1024) /* bytes of an answer: a message must fit into a socket's buffer */
#define CONTROL_WAITING_MAX 16         /* clients whose dump is not written yet */
#define CONTROL_CLIENT_S 2             /* seconds a client has to send its request */
#define CONTROL_ANSWER_MS 5000         /* until a recorder answers anything, or has room for a client */
#define CONTROL_FINISH_MS 30000        /* until it has finished what it began */
#define CONTROL_SUFFIX ".sock"

/* XDG_RUNTIME_DIR of the service in contrib/: made by systemd, and owned by the user as whom the service runs. */
#define CONTROL_SERVICE_RUNTIME "/run/inftrace-recorder"

/* Parses a message, which is one JSON object, to be put by the caller. -EBADMSG with a reason of one line. */
int control_parse(const char *text, size_t len, struct json_object **ret_object, char msg[CONTROL_MSG_MAX]);

/* Returns the JSON of an object, to be freed, with nothing that controls a terminal. */
char *control_text(struct json_object *object, size_t *ret_len);

enum control_command {
	CONTROL_START,
	CONTROL_STOP,
	CONTROL_DUMP, /* these three send {"taken":true} before the answer */
	CONTROL_STATUS,
	CONTROL_OPEN,
	CONTROL_COMMANDS,
};

extern const char *const control_commands[CONTROL_COMMANDS];

/*
 * ---- the recorder ----
 *
 * It reads the request of one client at a time, and never waits for one: a client has CONTROL_CLIENT_S
 * to send its request, and an answer that its socket does not take is dropped.
 */

struct control_request {
	enum control_command command;
	const char *reason; /* of a dump, in UTF-8; "": none */
	struct last last;
	uint64_t id; /* for control_done() */
	int fd;      /* set by CONTROL_OPEN: the trace, opened for reading; closed once sent; -1: none */
};

/*
 * Carries out a request. Fills in the reply, which it does not own, or returns -errno with a reason of one line in msg
 * (strerror's if left empty). -EINPROGRESS: a dump has begun, and control_done() will follow with its id.
 */
typedef int (*control_run_fn)(void *arg, struct control_request *rq, struct json_object *reply, char msg[CONTROL_MSG_MAX]);

/* Writes the reason of one line into msg. Returns err. */
int control_refuse(char msg[CONTROL_MSG_MAX], int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

struct control;

/*
 * Creates the socket in `directory` (NULL: that of control_directory()) and removes sockets left
 * behind by recorders that were killed. On failure prints a warning, since the recording can go on
 * without it. -EADDRINUSE: a recorder with the same pid, in another container, uses the name.
 */
int control_new(control_run_fn run, void *arg, const char *directory, struct control **ret_control);

/* The descriptor to poll for input: control_serve() has work then. -1 without a control. */
int control_fd(const struct control *c);

/* Does what is ready and never waits. Must be called at least once a second, for the deadlines of clients. */
void control_serve(struct control *c);

/* Answers the client whose dump has that id: err 0, or -errno with a reason, as from control_run_fn. Takes
 * over reply, which may be NULL. The client may be gone by then. */
void control_done(struct control *c, uint64_t id, int err, struct json_object *reply, const char *msg);

/* Tells the clients that are still waiting that the recording has ended, and removes the socket. */
void control_free(struct control *c);

/*
 * ---- clients ----
 *
 * No call waits longer than the times above, even when a recorder is stopped. Answers come from another process:
 * print them with text_printable().
 */

/*
 * Whose recordings: those of one user only, so that no other user's socket can pass for a
 * recorder's. By default root's for root; other users have to be named. The service in contrib/ runs as a user whose
 * uid is not known in advance, but only root can have made its directory: root need not name that user.
 */
struct control_where {
	uid_t uid;
	bool service;          /* also the service's, whatever user it runs as */
	const char *directory; /* NULL: that user's control_directory(), and the service's if it runs as that user */
};

/* The caller's recordings; for root also the service's. */
struct control_where control_where_own(void);

struct control_peer {
	pid_t pid;                   /* the recorder's */
	uid_t uid;                   /* the user it runs as */
	char *path;                  /* of its socket */
	struct json_object *status;  /* its answer when it was found; NULL: none */
	char error[CONTROL_MSG_MAX]; /* why there is none */
};

/*
 * The user's recordings, sorted by pid, with their status. pid selects what -p PID means: the
 * recording by that recorder, else of that process, else of all processes, else any that does not
 * answer; 0: all recordings. Sockets without a recorder are left out, as are those where the
 * listening process is not the user's or not the one in the name. Free the array with
 * control_peers_free().
 */
void control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers, size_t *ret_n);
void control_peers_free(struct control_peer *peers, size_t n);
void control_peer_free(struct control_peer *peer);

/*
 * The one recording that -p PID means, or with 0 the only one. Prints a line on failure, and a list
 * if there are several. -ENOENT: none; -ENOTUNIQ: several; -ETIMEDOUT: it does not answer.
 */
int control_find(const struct control_where *where, pid_t pid, struct control_peer *ret_peer);

/* Prints that there is no recording, or none of that process. */
void control_say_none(const struct control_where *where, pid_t pid);

/* Prints what it records: "llama-server (4711), worker (4712)" or "all processes". */
void control_print_targets(FILE *out, const struct control_peer *peer);

/*
 * Sends a command. reason, and last, the part of a dump that is wanted (parse_last()), may be NULL. *ret_reply is the answer,
 * with "ok" true, to be put by the caller. *ret_fd (unless NULL) is the descriptor that came with it, to be closed by the
 * caller, or -1. Prints a line on failure: -ETIMEDOUT: no answer; -ESRCH: the recording has ended;
 * -EREMOTEIO: it refused; -EPROTO: invalid answer; -EACCES.
 */
int control_ask(const struct control_peer *peer, enum control_command command, const char *reason, const char *last,
	struct json_object **ret_reply, int *ret_fd);

/* Parse the arguments of --user, a uid or a user's name, and of -p, a PID. Each prints a line on failure: -EINVAL. */
int control_take_user(const char *text, struct control_where *ret);
int control_take_pid(const char *text, pid_t *ret);

#endif
