/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client side of the control socket (control.h): finds recordings and asks them. No call waits
 * longer than the times below, even when a recorder is stopped. Answers come from another process:
 * print them with text_printable().
 *
 *     struct control_where where = { .uid = geteuid() };
 *     struct control_peer p;
 *
 *     err = control_find(&where, pid, &p);      prints a line on failure
 *     if (!err)
 *             err = control_ask(&p, "status", NULL, NULL, &reply, NULL);   prints a line, too
 *     ...
 *     json_object_put(reply);
 *     control_peer_free(&p);
 */
#ifndef INFTRACE_CONTROL_CLIENT_H
#define INFTRACE_CONTROL_CLIENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "io/control.h"

#define CONTROL_ANSWER_MS 5000  /* until a recorder answers anything, or has room for a client */
#define CONTROL_FINISH_MS 30000 /* until it has finished what it began */

/*
 * Whose recordings: those of one user only, so that no other user's socket can pass for a
 * recorder's. By default root's for root; other users have to be named. The service in contrib/ runs as a user whose
 * number nobody knows before, but only root can have made its directory: root need not name that user.
 */
struct control_where {
	uid_t uid;
	bool service;	       /* also those of the service, whoever that runs as */
	const char *directory; /* NULL: that user's control_directory(), and the service's if it runs as that user */
};

/* Those of the caller; for root also of the service. */
struct control_where control_where_own(void);

struct control_peer {
	pid_t pid;                   /* of the recorder */
	uid_t uid;                   /* that it runs as */
	char *path;                  /* of its socket */
	struct json_object *status;  /* its answer when it was found; NULL: none */
	char error[CONTROL_MSG_MAX]; /* why there is none */
};

/*
 * The user's recordings, sorted by pid, with their status. pid selects what -p PID means: the
 * recording by that recorder, else of that process, else of all processes, else any that does not
 * answer; 0: all recordings. Sockets without a recorder are left out, as are those where the
 * listening process is not the user's or not the one in the name. Free the array with
 * control_peers_free(). 0, -ENOMEM.
 */
int control_list(const struct control_where *where, pid_t pid, struct control_peer **ret_peers,
	size_t *ret_n);
void control_peers_free(struct control_peer *peers, size_t n);
void control_peer_free(struct control_peer *peer);

/*
 * The one recording that -p PID means, or with 0 the only one. Prints a line on failure, and a list
 * if there are several. -ENOENT: none; -ENOTUNIQ: several; -ETIMEDOUT: it does not answer; -ENOMEM.
 */
int control_find(const struct control_where *where, pid_t pid, struct control_peer *ret_peer);

/* Prints that there is no recording, or none of that process. */
void control_say_none(const struct control_where *where, pid_t pid);

/* What it records: "llama-server (4711), worker (4712)" or "all processes", cut to fit. Names of
 * processes are not escaped. Returns buf. */
const char *control_peer_targets(const struct control_peer *peer, char *buf, size_t size);

/*
 * Sends a command, with a reason and what of a dump is wanted (parse_last()), each or NULL. *ret_reply is the answer, with "ok" true, to be put by
 * the caller. *ret_fd (unless NULL) is the descriptor that came with it, to be closed by the
 * caller, or -1. Prints a line on failure: -ETIMEDOUT: no answer; -ESRCH: the recording has ended;
 * -EREMOTEIO: it refused; -EPROTO: invalid answer; -EACCES.
 */
int control_ask(const struct control_peer *peer, const char *command, const char *reason, const char *last,
	struct json_object **ret_reply, int *ret_fd);

/* The UID that --user names: a number, or the name of a user. -EINVAL. */
int control_parse_user(const char *text, uid_t *ret_uid);

#endif
