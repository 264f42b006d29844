/*
 * main.c - run cases, each in a process and a directory of its own, and print what came out
 *
 *   conform --all DIR [PREFIX]    every case (whose name begins with PREFIX) below DIR, one
 *                                 JSON object a line
 *   conform --list                their names
 *   conform --tree DIR            what the cases left below DIR, past any library
 *   conform --observe DIR <PATHS  the same as a program sees it, for each path (relative to
 * DIR)
 *
 * A case that does not end is killed, and says so: "hang" is an outcome like another.
 */
#include "conform.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/syscall.h>

#define BOUND_MS 4000

struct conform_case {
    char name[128];
    case_fn *run;
    long a, b;
};

static struct conform_case cases[4000];
static size_t case_count;
char self_exe[4096];

void conform_add(case_fn *run, long a, long b, const char *fmt, ...)
{
    struct conform_case *c = &cases[case_count];
    va_list args;

    if (case_count == sizeof cases / sizeof *cases)
        abort();
    va_start(args, fmt);
    vsnprintf(c->name, sizeof c->name, fmt, args);
    va_end(args);
    c->run = run;
    c->a = a;
    c->b = b;
    case_count++;
}

static void add_all(void)
{
    add_open_cases();
    add_path_cases();
    add_stream_cases();
    add_descriptor_cases();
    add_name_cases();
    add_link_cases();
    add_look_cases();
    add_attribute_cases();
    add_directory_cases();
    add_lock_cases();
    add_process_cases();
    add_end_cases();
    add_data_cases();
    add_odd_cases();
    add_denied_cases();
}

static _Noreturn void in_child(const struct conform_case *c, const char *dir)
{
    setpgid(0, 0);
    note_main();
    if (chdir(dir) != 0)
        _exit(98);
    umask(022);
    closefrom(0);
    /* The same lowest numbers everywhere, whatever the launcher left open. */
    if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
        _exit(97);
    c->run(c->a, c->b);
    exit(0);
}

/* How the process ended: "exit N", "signal X" or "hang". */
static void wait_bounded(pid_t pid, char *how, size_t room)
{
    int status, fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    bool hang = poll(&end, 1, BOUND_MS) == 0;

    syscall(SYS_close, fd);
    /* Also what it left behind in its group. */
    kill(-pid, SIGKILL);
    if (hang)
        kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (hang)
        snprintf(how, room, "hang");
    else if (WIFSIGNALED(status))
        snprintf(how, room, "signal %s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(how, room, "exit %d", WEXITSTATUS(status));
}

static void run_case(const struct conform_case *c, const char *base)
{
    char dir[8192], how[64];
    struct tree_how tree = {.raw = true, .separator = ","};
    pid_t pid;

    note_reset();
    snprintf(dir, sizeof dir, "%s%.*s", base, (int)sizeof c->name, c->name);
    if (mkdir(dir, 0755) != 0) {
        perror(dir);
        exit(2);
    }
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        in_child(c, dir);
    wait_bounded(pid, how, sizeof how);
    printf("{\"case\":\"%s\",\"end\":\"%s\",\"notes\":[\"\"", c->name, how);
    note_print(stdout);
    printf("],\"tree\":[");
    tree_print(stdout, base, dir, &tree);
    printf("\"\"]}\n");
}

static int run_all(const char *dir, const char *prefix)
{
    char base[4096], file[4096];
    const char *tmp = getenv("TMPDIR");

    if (!realpath(dir, base)) {
        perror(dir);
        return 2;
    }
    strcat(base, "/");
    snprintf(file, sizeof file, "%s/conform.XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(file);
    if (fd < 0) {
        perror(file);
        return 2;
    }
    close(fd);
    note_open(file);
    note_base(base);
    setenv("CONFORM_NOTES", file, 1);
    setenv("CONFORM_BASE", base, 1);
    signal(SIGPIPE, SIG_DFL);
    for (size_t i = 0; i < case_count; i++)
        if (strncmp(cases[i].name, prefix, strlen(prefix)) == 0)
            run_case(&cases[i], base);
    unlink(file);
    return fflush(stdout) == 0 ? 0 : 2;
}

static int show_tree(const char *dir)
{
    struct tree_how how = {.raw = true, .exact = true, .separator = "\n"};
    char base[4096];

    if (!realpath(dir, base)) {
        perror(dir);
        return 2;
    }
    strcat(base, "/");
    tree_print(stdout, base, dir, &how);
    return 0;
}

static int observe(const char *dir)
{
    struct tree_how how = {.exact = true};
    char base[4096], line[4096], path[8300];

    if (!realpath(dir, base)) {
        perror(dir);
        return 2;
    }
    strcat(base, "/");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, "%s%s", base, line);
        tree_entry(stdout, base, path, &how);
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    ssize_t len = readlink("/proc/self/exe", self_exe, 4095);

    if (len < 0)
        return 2;
    self_exe[len] = 0;
    if (argc == 4 && strcmp(argv[1], "--verb") == 0) {
        note_open(getenv("CONFORM_NOTES"));
        note_base(getenv("CONFORM_BASE"));
        return run_verb(argv[2], argv[3]);
    }
    raw_setup();
    add_all();
    if (argc >= 3 && strcmp(argv[1], "--all") == 0)
        return run_all(argv[2], argc > 3 ? argv[3] : "");
    if (argc == 3 && strcmp(argv[1], "--tree") == 0)
        return show_tree(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--observe") == 0)
        return observe(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < case_count; i++)
            puts(cases[i].name);
        return 0;
    }
    fprintf(stderr,
            "usage: conform --all DIR [PREFIX] | --list | --tree DIR | --observe DIR\n");
    return 2;
}
