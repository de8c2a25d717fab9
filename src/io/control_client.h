/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The side of the control socket (control.h) that asks: which recordings there are, and what they
 * answer. No call waits longer than the times below, also for a recorder that is stopped. Answers
 * are another process's words: print them with text_printable().
 *
 *     struct control_where where = { .uid = geteuid() };
 *     struct control_peer p;
 *
 *     err = control_find(&where, pid, &p);      prints a line on failure
 *     if (!err)
 *             err = control_ask(&p, "status", NULL, &reply, NULL);   the same
 *     ...
 *     json_object_put(reply);
 *     control_peer_free(&p);
 */
#ifndef INFTRACE_CONTROL_CLIENT_H
#define INFTRACE_CONTROL_CLIENT_H

#include <json-c/json.h>
#include <stddef.h>
#include <sys/types.h>

#include "io/control.h"

#define CONTROL_ANSWER_MS 5000  /* until a recorder says something, or has room for a client */
#define CONTROL_FINISH_MS 30000 /* until it is done with what it has taken */

/*
 * Whose recordings: those of one user only, so that no other user's socket can pass for a
 * recorder's. For root that is root; other users are to be named.
 */
struct control_where {
	uid_t uid;
	const char *directory; /* NULL: control_directory() of that user */
};

struct control_peer {
	pid_t pid;                   /* of the recorder */
	uid_t uid;                   /* that it runs as */
	char *path;                  /* of its socket */
	struct json_object *status;  /* what it said when it was found; NULL: nothing */
	char error[CONTROL_MSG_MAX]; /* why not */
};

/*
 * The recordings of that user, by pid, with their status. pid: those that -p PID means: by that
 * recorder, else of that process, else of all processes, else any that does not answer; 0: all
 * there are. Sockets without a recorder are left out, and those where the process that listens is
 * not the user's, or not the one in the name. The array is freed with control_peers_free().
 * 0, -ENOMEM.
 */
int control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers,
	size_t *ret_n);
void control_peers_free(struct control_peer *peers, size_t n);
void control_peer_free(struct control_peer *peer);

/*
 * The one recording that -p PID means; 0: the only one there is. Prints a line on failure, of
 * several also a list of them. -ENOENT: none; -ENOTUNIQ: several; -ETIMEDOUT: it does not answer;
 * -ENOMEM.
 */
int control_find(const struct control_where *where, pid_t pid, struct control_peer *ret_peer);

/* Prints that there is none, or none of that process. */
void control_say_none(const struct control_where *where, pid_t pid);

/* What it records: "llama-server (4711), worker (4712)" or "all processes", cut to fit. Names of
 * processes are as they are. Returns buf. */
const char *control_peer_targets(const struct control_peer *peer, char *buf, size_t size);

/*
 * Asks for a command, with a reason or NULL. *ret_reply: the answer, with "ok" true, to be put by
 * the caller. ret_fd, or NULL: the descriptor that came with it, to be closed by the caller, -1 for
 * none. Prints a line on failure: -ETIMEDOUT: no answer; -ESRCH: the recording has ended;
 * -EREMOTEIO: it said no; -EPROTO: it talks nonsense; -EACCES.
 */
int control_ask(const struct control_peer *peer, const char *command, const char *reason,
	struct json_object **ret_reply, int *ret_fd);

/* The UID that --user names: a number, or the name of a user. -EINVAL. */
int control_parse_user(const char *text, uid_t *ret_uid);

#endif
