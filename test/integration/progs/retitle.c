/*
 * retitle.c - a program that writes its title over its arguments and its environment
 *
 * retitle MODE DIR OWN OTHER: as setproctitle does it, all bytes from argv[0] to the end of
 * the last variable are overwritten at once. MODE "moved" or "ends": the environment was
 * copied before, and `environ` points to the copy; "still" or "still-ends": it points to
 * what is no environment any more. Then, in DIR: OWN is written, OTHER is read, by this
 * process, and by a child, which writes OWN.child; at the end the process executes a shell,
 * which writes OWN.exec, but with "ends". Exit status 0: OTHER was right.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char mode[16], dir[4096], own[256], other[256];

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

static void move_environment(void)
{
    size_t n = 0;
    char **moved;

    while (environ[n])
        n++;
    moved = calloc(n + 1, sizeof(*moved));
    for (size_t i = 0; i < n; i++)
        moved[i] = strdup(environ[i]);
    environ = moved;
}

static void overwrite(char **argv, char *end)
{
    memset(argv[0], 'x', (size_t)(end - argv[0]));
    *end = '\0';
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void write_own(void)
{
    FILE *f = fopen(own, "w");

    if (!f || fprintf(f, "%s\n", own) < 0 || fclose(f) != 0)
        die(own);
}

static void read_other(void)
{
    char text[256] = "";
    FILE *f = fopen(other, "r");

    if (!f || !fgets(text, sizeof(text), f) || fclose(f) != 0)
        die(other);
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(text, other) != 0) {
        fprintf(stderr, "%s has %s\n", other, text);
        exit(1);
    }
}

static void child(void)
{
    char command[1024];
    char *argv[] = {(char *)"sh", (char *)"-c", command, NULL};
    int status;
    pid_t pid;

    snprintf(command, sizeof(command), "read -r line <%s && echo %s.child >%s.child", other,
             own, own);
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        die("child");
    if (strncmp(mode, "still", 5) != 0) {
        snprintf(command, sizeof(command), "[ -n \"$PATH\" ] && echo %s.system >%s.system",
                 own, own);
        if (system(command) != 0)
            die("system");
    }
}

int main(int argc, char **argv)
{
    size_t n = 0;
    char *end, command[1024];

    if (argc != 5)
        return 2;
    copy(mode, sizeof(mode), argv[1]);
    copy(dir, sizeof(dir), argv[2]);
    copy(own, sizeof(own), argv[3]);
    copy(other, sizeof(other), argv[4]);
    while (environ[n])
        n++;
    /* the library puts variables of its own behind the last: only those count that lie
     * behind argv[0] in a row */
    end = argv[argc - 1] + strlen(argv[argc - 1]);
    for (size_t i = 0; i < n && environ[i] == end + 1; i++)
        end = environ[i] + strlen(environ[i]);
    if (end == argv[4] + strlen(argv[4])) {
        fprintf(stderr, "the environment does not lie behind the arguments\n");
        return 2;
    }
    if (strncmp(mode, "still", 5) != 0)
        move_environment();
    overwrite(argv, end);

    if (chdir(dir) < 0)
        die(dir);
    write_own();
    read_other();
    child();
    if (strstr(mode, "ends"))
        return 0;
    snprintf(command, sizeof(command), "echo %s.exec >%s.exec", own, own);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    die("exec");
}
