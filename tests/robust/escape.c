// SPDX-License-Identifier: BSD-2-Clause
/*
 * escape FIFO FOLDER NAME FILE: as an ordinary user with a mount namespace of its own. On a tmpfs over
 * FOLDER it maps a copy of FILE as NAME whose inode number is that of FIFO, and puts a symbolic link to
 * FIFO in the place of NAME. Within the namespace, FIFO's path leads to nothing. Prints "ready".
 *
 * escape --opened FILE: prints how often FILE was opened, when it receives SIGTERM.
 */
#include "../program.h"

#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/sendfile.h>

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	must(fd >= 0 && write(fd, text, strlen(text)) >= 0, path);
	close(fd);
}

/* A tmpfs gives numbers in order. */
static int make_inode(const char *name, ino_t ino)
{
	struct stat st;

	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

		must(fd >= 0 && !fstat(fd, &st), name);
		if (st.st_ino == ino)
			return fd;
		if (st.st_ino > ino) {
			errno = ERANGE;
			die("the inode number is gone");
		}
		close(fd);
		unlink(name);
	}
}

static _Noreturn void escape(const char *fifo, const char *folder, const char *name, const char *file)
{
	int in = open(file, O_RDONLY | O_CLOEXEC), out;
	struct stat st, copied;
	char uids[64], gids[64], deleted[256];

	must(in >= 0 && !stat(fifo, &st) && !fstat(in, &copied), file);
	snprintf(uids, sizeof(uids), "0 %u 1", getuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getgid());
	must(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", uids);
	write_file("/proc/self/gid_map", gids);
	must(!mount("none", folder, "tmpfs", 0, "mode=0777") && !chdir(folder), "mount");
	out = make_inode(name, st.st_ino);
	must(sendfile(out, in, NULL, (size_t)copied.st_size) == copied.st_size, "sendfile");
	must(mmap(NULL, (size_t)copied.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, out, 0) != MAP_FAILED, "mmap");
	close(out);
	snprintf(deleted, sizeof(deleted), "%s (deleted)", name); /* as the maps file calls it then */
	must(!unlink(name) && !symlink(fifo, name) && !symlink(fifo, deleted), "symlink");
	say("ready");
	for (;;)
		pause();
}

static int count_opened(const char *file)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), sig;
	char buf[65536];
	size_t opened = 0;
	sigset_t set;
	ssize_t n;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	must(fd >= 0 && inotify_add_watch(fd, file, IN_OPEN) >= 0, file);
	say("watching");
	sigwait(&set, &sig);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		opened += (size_t)n / sizeof(struct inotify_event);
	printf("%zu\n", opened);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--opened"))
		return count_opened(argv[2]);
	if (argc == 5)
		escape(argv[1], argv[2], argv[3], argv[4]);
	return 2;
}
