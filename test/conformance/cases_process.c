/* cases_process.c - fork, exec, spawn: inherited descriptors, their offsets, their files */
#include "conform.h"

#include <spawn.h>
#include <sys/mman.h>

extern char **environ;
pid_t _Fork(void);
pid_t __fork(void);

static int file(const char *name)
{
    return R(open(name, O_RDWR | O_CREAT, 0644));
}

enum last { PARENT_LAST, CHILD_LAST };

static void forks(long how, long last)
{
    int fd = file("f"), ready[2];
    char c;
    pid_t pid;

    R(write(fd, "parent ", 7));
    R(pipe(ready));
    if (how == 0)
        pid = fork();
    else if (how == 1)
        pid = __fork();
    else
        pid = _Fork();
    if (pid == 0) {
        if (last == CHILD_LAST)
            R(read(ready[0], &c, 1));
        R(write(fd, "child ", 6));
        if (last == CHILD_LAST)
            show("f");
        _exit(0);
    }
    if (last == PARENT_LAST) {
        reap(pid);
        R(lseek(fd, 0, SEEK_CUR));
        R(write(fd, "end", 3));
        R(close(fd));
    } else {
        R(close(fd));
        R(write(ready[1], "x", 1));
        reap(pid);
    }
    show("f");
}

/* a: form of exec; b: in a child of fork (0) or of vfork (1) */
static void execs(long how, long shared)
{
    char *argv[6], text[8];
    int fd = file("f"), self = R(open(self_exe, O_RDONLY | O_CLOEXEC));
    pid_t pid;

    R(write(fd, "before ", 7));
    snprintf(text, sizeof text, "%d", fd);
    verb_argv(argv, "write", text);
    pid = shared ? vfork() : fork();
    if (pid == 0) {
        switch (how) {
        case 0:
            execv(self_exe, argv);
            break;
        case 1:
            execve(self_exe, argv, environ);
            break;
        case 2:
            execvp(self_exe, argv);
            break;
        case 3:
            execvpe(self_exe, argv, environ);
            break;
        case 4:
            execl(self_exe, self_exe, "--verb", "write", text, (char *)NULL);
            break;
        case 5:
            execle(self_exe, self_exe, "--verb", "write", text, (char *)NULL, environ);
            break;
        case 6:
            execlp(self_exe, self_exe, "--verb", "write", text, (char *)NULL);
            break;
        case 7:
            fexecve(self, argv, environ);
            break;
        default:
            execveat(AT_FDCWD, self_exe, argv, environ, 0);
            break;
        }
        _exit(90);
    }
    reap(pid);
    R(lseek(fd, 0, SEEK_CUR));
    R(write(fd, " after", 6));
    R(close(fd));
    show("f");
}

static void exec_fails(long how, long unused)
{
    char *argv[6], script[64] = "script";
    int fd;

    (void)unused;
    verb_argv(argv, "exit", "5");
    fd = file("f");
    R(write(fd, "kept", 4));
    switch (how) {
    case 0:
        R(execv("none", argv));
        break;
    case 1:
        put("plain", "not a program");
        R(execv("plain", argv));
        chmod("plain", 0755);
        R(execv("plain", argv));
        break;
    case 2:
        R(execv("", argv));
        R(execvp("", argv));
        R(execvp("no-such-program-anywhere", argv));
        break;
    case 3:
        R(execv(".", argv));
        R(fexecve(77, argv, environ));
        R(execveat(77, "x", argv, environ, 0));
        break;
    default: /* of a script that is being written */
        put(script, "#!/bin/sh\nexit 4\n");
        chmod(script, 0755);
        int busy = R(open(script, O_WRONLY));

        CHILD(execl("./script", "script", (char *)NULL); note_int("execl", -1, errno));
        R(close(busy));
        CHILD(execl("./script", "script", (char *)NULL); note_int("execl", -1, errno));
        break;
    }
    R(write(fd, " and on", 7));
    R(close(fd));
    show("f");
}

/* Programs that stand in the directory themselves. */
static void exec_here(long how, long unused)
{
    char *const argv[] = {(char *)"script", NULL};
    pid_t pid;

    (void)unused;
    mkdir("bin", 0755);
    put("bin/script", "#!/bin/sh\necho ran > made; exit 6\n");
    chmod("bin/script", 0755);
    symlink("script", "bin/link");
    switch (how) {
    case 0:
        CHILD(execv("bin/script", argv));
        break;
    case 1:
        setenv("PATH", "bin:/bin:/usr/bin", 1);
        CHILD(execvp("script", argv));
        break;
    case 2:
        CHILD(execv("bin/link", argv));
        break;
    case 3:
        E(posix_spawn(&pid, "bin/script", NULL, NULL, argv, environ));
        reap(pid);
        break;
    case 4:
        R(system("bin/script"));
        break;
    default:
        CHILD(execveat(R(open("bin", O_RDONLY)), "script", argv, environ, 0));
        break;
    }
    show("made");
}

static void spawns(long how, long unused)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char *argv[6], text[8], cwd[4096];
    int fd = file("f");
    pid_t pid = 0;

    (void)unused;
    R(write(fd, "before ", 7));
    snprintf(text, sizeof text, "%d", fd);
    verb_argv(argv, "write", text);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    switch (how) {
    case 0:
        E(posix_spawn(&pid, self_exe, NULL, NULL, argv, environ));
        break;
    case 1:
        E(posix_spawnp(&pid, self_exe, &actions, &attr, argv, environ));
        break;
    case 2: /* opens the file itself */
        verb_argv(argv, "stdout", "printed by the image");
        posix_spawn_file_actions_addopen(&actions, 1, "g", O_WRONLY | O_CREAT | O_TRUNC,
                                         0644);
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        break;
    case 3:
        verb_argv(argv, "stdout", "printed");
        posix_spawn_file_actions_adddup2(&actions, fd, 1);
        posix_spawn_file_actions_addclose(&actions, fd);
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        break;
    case 4:
        verb_argv(argv, "put", "in_d");
        mkdir("d", 0755);
        posix_spawn_file_actions_addchdir_np(&actions, "d");
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        break;
    case 5:
        E(posix_spawn(&pid, "/no/such/program", NULL, NULL, argv, environ));
        E(posix_spawnp(&pid, "no-such-program-anywhere", NULL, NULL, argv, environ));
        pid = 0;
        break;
    case 6:
        posix_spawn_file_actions_addopen(&actions, 5, "none/x", O_WRONLY | O_CREAT, 0644);
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        pid = 0;
        break;
    case 7: /* reads what is here by a number of its own choice */
        put("in", "abcdefgh");
        verb_argv(argv, "read", "9");
        posix_spawn_file_actions_addopen(&actions, 9, "in", O_RDONLY, 0);
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        break;
    case 8:
        posix_spawn_file_actions_addclosefrom_np(&actions, 3);
        E(posix_spawn(&pid, self_exe, &actions, NULL, argv, environ));
        break;
    default: /* the child closes last */
        verb_argv(argv, "write_close", text);
        E(posix_spawn(&pid, self_exe, NULL, NULL, argv, environ));
        R(close(fd));
        break;
    }
    if (pid > 0)
        reap(pid);
    (void)cwd;
    R(lseek(fd, 0, SEEK_CUR));
    R(close(fd));
    show("f");
    show("g");
}

static void inherited_flags(long unused, long unused2)
{
    char text[8];

    (void)unused, (void)unused2;
    int fd = R(open("f", O_WRONLY | O_CREAT | O_APPEND, 0644));
    int kept = R(open("g", O_RDWR | O_CREAT | O_CLOEXEC, 0644));

    R(write(fd, "12345", 5));
    R(write(kept, "kept", 4));
    snprintf(text, sizeof text, "%d", fd);
    exec_verb("offset", text);
    exec_verb("fds", "");
    snprintf(text, sizeof text, "%d", kept);
    exec_verb("offset", text);
    R(fcntl(kept, F_SETFD, 0));
    exec_verb("write", text);
    R(close(kept));
    R(close(fd));
    show("f");
    show("g");
}

static void read_inherited(long unused, long unused2)
{
    char text[8], four[5] = "";

    (void)unused, (void)unused2;
    put("f", "abcdefghijkl");
    int fd = R(open("f", O_RDONLY));

    R(read(fd, four, 4));
    snprintf(text, sizeof text, "%d", fd);
    exec_verb("read", text);
    R(read(fd, four, 4));
    note_str("third part", four);
    exec_verb("show", "f");
}

/* This process itself becomes another image. */
static void become(long which, long unused)
{
    char *argv[6], text[8];
    int fd = file("f");

    (void)unused;
    R(write(fd, "first image ", 12));
    snprintf(text, sizeof text, "%d", fd);
    if (which == 0) {
        verb_argv(argv, "write", text);
    } else if (which == 1) {
        verb_argv(argv, "write_close", text);
    } else if (which == 2) {
        R(fcntl(fd, F_SETFD, FD_CLOEXEC));
        verb_argv(argv, "show", "f");
    } else {
        R(close(fd));
        verb_argv(argv, "put", "g");
    }
    execv(self_exe, argv);
}

static void generations(long unused, long unused2)
{
    int fd = file("f");

    (void)unused, (void)unused2;
    R(write(fd, "0", 1));
    CHILD({
        R(write(fd, "1", 1));
        CHILD({
            R(write(fd, "2", 1));
            exec_verb("say", "three deep");
            put("g", "by the grandchild");
        });
        show("g");
    });
    R(close(fd));
    show("f");
}

/* A child of vfork closes and copies: the parent's descriptors stay as they are. */
static void vfork_child(long unused, long unused2)
{
    char *argv[6];
    int fd = file("f");
    pid_t pid;

    (void)unused, (void)unused2;
    R(write(fd, "before", 6));
    verb_argv(argv, "stdout", "from the image");
    pid = vfork();
    if (pid == 0) {
        dup2(fd, 1);
        close(fd);
        close_range(3, ~0U, 0);
        execv(self_exe, argv);
        _exit(91);
    }
    reap(pid);
    R(write(fd, " after", 6));
    R(close(fd));
    show("f");
}

static void two_children(long unused, long unused2)
{
    int fd = R(open("f", O_WRONLY | O_CREAT | O_APPEND, 0644));
    pid_t pid[4];

    (void)unused, (void)unused2;
    for (int i = 0; i < 4; i++) {
        pid[i] = spawn();
        if (pid[i] == 0) {
            for (int j = 0; j < 50; j++)
                if (write(fd, "x", 1) != 1)
                    _exit(1);
            _exit(0);
        }
    }
    R(close(fd));
    for (int i = 0; i < 4; i++)
        reap(pid[i]);
    look("f");
}

void add_process_cases(void)
{
    static const char *const forms[] = {"fork", "__fork", "_Fork"};
    static const char *const images[] = {"execv",  "execve", "execvp",  "execvpe", "execl",
                                         "execle", "execlp", "fexecve", "execveat"};

    for (long how = 0; how < 3; how++) {
        conform_add(forks, how, PARENT_LAST, "process.%s.parent_last", forms[how]);
        conform_add(forks, how, CHILD_LAST, "process.%s.child_last", forms[how]);
    }
    for (long how = 0; how < 9; how++) {
        conform_add(execs, how, 0, "process.%s", images[how]);
        conform_add(execs, how, 1, "process.vfork.%s", images[how]);
    }
    for (long how = 0; how < 5; how++)
        conform_add(exec_fails, how, 0, "process.exec_fails.%ld", how);
    for (long how = 0; how < 6; how++)
        conform_add(exec_here, how, 0, "process.exec_here.%ld", how);
    for (long how = 0; how < 10; how++)
        conform_add(spawns, how, 0, "process.spawn.%ld", how);
    ADD("process", inherited_flags);
    ADD("process", read_inherited);
    for (long which = 0; which < 4; which++)
        conform_add(become, which, 0, "process.become.%ld", which);
    ADD("process", generations);
    ADD("process", vfork_child);
    ADD("process", two_children);
}
