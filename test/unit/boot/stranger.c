/*
 * stranger.c - a process of another user, for a test that root runs
 */
#include "stranger.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

bool stranger_can(void)
{
    if (geteuid() == 0)
        return true;
    skip();
    return false;
}

int stranger_exit_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

struct stranger stranger_holds(const struct sockaddr_un *names, const socklen_t *lens,
                               int n, int backlog)
{
    struct stranger stranger;
    int line[2], ready[2];
    char c;

    assert_int_equal(pipe(line) | pipe(ready), 0);
    if ((stranger.pid = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
            _exit(8);
        close_range(256, ~0u, 0); /* our claims: it has none of ours */
        for (int i = 0; i < n; i++) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (bind(fd, (const struct sockaddr *)&names[i], lens[i]) < 0 ||
                (backlog != STRANGER_BINDS && listen(fd, backlog) < 0))
                _exit(7);
            for (int filled = 0; backlog == 0 && filled >= 0;)
                filled = connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0),
                                 (const struct sockaddr *)&names[i], lens[i]);
        }
        close(line[1]);
        close(ready[0]);
        _exit(write(ready[1], "x", 1) == 1 && read(line[0], &c, 1) == 0 ? 0 : 6);
    }
    close(line[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    stranger.line = line[1];
    return stranger;
}

void stranger_end(struct stranger stranger)
{
    close(stranger.line);
    assert_int_equal(stranger_exit_of(stranger.pid), 0);
}
