/*
 * poll - processes that look until a file is there, and one that makes it
 *
 *   poll make DMD SYNC ROUNDS POLLERS     publish, tell, wait for the pollers, remove, tell
 *   poll look DMD SYNC ROUNDS NAME N      N processes that poll; prints how often
 *
 * SYNC is a directory outside of the managed one that all nodes see: what the maker tells
 * there comes after its close() or unlink() has returned, so the first look after it must
 * know. Each name comes again after a few rounds, in a higher version.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES 5

static const char *dmd, *sync_dir;
static char path[4096], flag[4096];

static void die(const char *what, int round)
{
    fprintf(stderr, "poll: round %d: %s (%s)\n", round, what, strerror(errno));
    exit(1);
}

static const char *file_of(int round)
{
    snprintf(path, sizeof(path), "%s/polled.%d", dmd, round % NAMES);
    return path;
}

static const char *flag_of(const char *what, int round)
{
    snprintf(flag, sizeof(flag), "%s/%s.%d", sync_dir, what, round);
    return flag;
}

static void raise_flag(const char *what, int round)
{
    int fd = open(flag_of(what, round), O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        die("no flag", round);
    close(fd);
}

/* Wait for a flag of each poller. */
static void wait_all(const char *what, int round, int npollers)
{
    for (int i = 0; i < npollers; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.%c%d", what, 'a' + i / 2, i % 2);
        while (access(flag_of(name, round), F_OK) < 0)
            usleep(100);
    }
}

static void make(int rounds, int npollers)
{
    for (int i = 0; i < rounds; i++) {
        wait_all("ready", i, npollers);
        int fd = open(file_of(i), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dprintf(fd, "%d\n", i) < 0 || ftruncate(fd, i + 10) < 0 ||
            close(fd) < 0)
            die("cannot make the file", i);
        raise_flag("made", i);
        wait_all("seen", i, npollers);
        if (unlink(file_of(i)) < 0)
            die("cannot remove the file", i);
        raise_flag("gone", i);
    }
}

/* Poll until the file is (or is not) there; the flag, read before a look, binds that look.
 */
static long look(int round, bool there)
{
    struct stat st;
    long n = 0;

    for (;; n++) {
        bool told = access(flag_of(there ? "made" : "gone", round), F_OK) == 0;
        int rc = n % 2 ? access(file_of(round), F_OK) : stat(file_of(round), &st);
        if (rc < 0 && errno != ENOENT)
            die("a look failed", round);
        if (there && rc == 0 && n % 2 == 0 && st.st_size != round + 10)
            die("an old size", round);
        if ((rc == 0) == there && told)
            return n;
        if (told)
            die(there ? "it is published but not seen" : "it is removed but seen", round);
    }
}

static int poller(int rounds, const char *name)
{
    char ready[64], seen[64];
    long n = 0;

    snprintf(ready, sizeof(ready), "ready.%s", name);
    snprintf(seen, sizeof(seen), "seen.%s", name);
    for (int i = 0; i < rounds; i++) {
        struct stat st;
        if (stat(file_of(i), &st) == 0)
            die("it is there too early", i);
        raise_flag(ready, i);
        n += look(i, true);
        raise_flag(seen, i);
        n += look(i, false);
    }
    printf("polls %ld\n", n);
    return 0;
}

int main(int argc, char **argv)
{
    int status, bad = 0;

    if (argc < 6)
        return 2;
    dmd = argv[2];
    sync_dir = argv[3];
    if (strcmp(argv[1], "make") == 0) {
        make(atoi(argv[4]), atoi(argv[5]));
        return 0;
    }
    for (int i = 0; i < atoi(argv[6]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s%d", argv[5], i);
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
            return 2;
        if (pid == 0)
            exit(poller(atoi(argv[4]), name));
    }
    while (wait(&status) > 0)
        bad |= status != 0;
    return bad;
}
