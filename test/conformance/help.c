/*
 * help.c - what cases share: states of a name, children, and the verbs of an exec'd image
 */
#include "conform.h"

const char *const state_names[STATES] = {
    "missing",    "file",           "empty",           "read_only",
    "directory",  "full_directory", "symlink",         "dirlink",
    "dangling",   "loop",           "no_parent",       "below_file",
    "file_slash", "missing_slash",  "directory_slash", "fifo",
};

void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || close(fd) != 0)
        note_int("put", -1, errno);
}

void show_fd(const char *what, int fd)
{
    char data[512];
    ssize_t got = pread(fd, data, sizeof data, 0);

    if (got < 0)
        note_int(what, -1, errno);
    else
        note_bytes(what, data, (size_t)got);
}

/* What a path is called in a note: the way to it is another note's matter. */
static const char *label(const char *path)
{
    const char *last = strrchr(path, '/');

    return path[0] == '/' && last[1] ? last + 1 : path;
}

void show(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK);

    if (fd < 0) {
        note_int(label(path), -1, errno);
        return;
    }
    show_fd(label(path), fd);
    close(fd);
}

void look(const char *path)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        note_int(label(path), -1, errno);
    else
        note_stat(label(path), &st);
}

int reap(pid_t pid)
{
    int status = -1;
    char how[64];

    if (waitpid(pid, &status, 0) != pid)
        snprintf(how, sizeof how, "waitpid %s", strerrorname_np(errno));
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "exit %d", WEXITSTATUS(status));
    note_str("child", how);
    return status;
}

pid_t spawn(void)
{
    pid_t pid = fork();

    if (pid < 0) {
        note_int("fork", -1, errno);
        exit(96);
    }
    return pid;
}

const char *make_state(const char *name, enum state state)
{
    static char path[2][64];
    static int turn;
    char *to = path[turn++ % 2], inside[128];

    snprintf(to, sizeof path[0], "%s", name);
    switch (state) {
    case A_FILE:
    case READ_ONLY:
    case FILE_SLASH:
    case EMPTY_FILE:
        put(name, state == EMPTY_FILE ? "" : "old content");
        if (state == READ_ONLY)
            chmod(name, 0444);
        break;
    case A_DIRECTORY:
    case FULL_DIRECTORY:
    case DIRECTORY_SLASH:
        mkdir(name, 0755);
        snprintf(inside, sizeof inside, "%s/inside", name);
        if (state == FULL_DIRECTORY)
            put(inside, "inside");
        break;
    case LINK_TO_FILE:
        put("target", "old content");
        symlink("target", name);
        break;
    case LINK_TO_DIRECTORY:
        mkdir("target.d", 0755);
        symlink("target.d", name);
        break;
    case DANGLING:
        symlink("nowhere", name);
        break;
    case LOOP:
        symlink(name, name);
        break;
    case NO_PARENT:
        snprintf(to, sizeof path[0], "nodir/%s", name);
        break;
    case BELOW_FILE:
        put("plain", "plain");
        snprintf(to, sizeof path[0], "plain/%s", name);
        break;
    case A_FIFO:
        mkfifo(name, 0644);
        break;
    case MISSING:
    case MISSING_SLASH:
    case STATES:
        break;
    }
    if (state == FILE_SLASH || state == MISSING_SLASH || state == DIRECTORY_SLASH)
        strcat(to, "/");
    return to;
}

void verb_argv(char *argv[6], const char *verb, const char *arg)
{
    argv[0] = self_exe;
    argv[1] = (char *)"--verb";
    argv[2] = (char *)verb;
    argv[3] = (char *)arg;
    argv[4] = NULL;
}

void exec_verb(const char *verb, const char *arg)
{
    char *argv[6];
    pid_t pid = spawn();

    if (pid == 0) {
        verb_argv(argv, verb, arg);
        execv(self_exe, argv);
        note_int("execv", -1, errno);
        _exit(95);
    }
    reap(pid);
}

int run_verb(const char *verb, const char *arg)
{
    int fd = atoi(arg);

    if (strcmp(verb, "exit") == 0)
        return fd;
    if (strcmp(verb, "say") == 0) {
        note_str("say", arg);
        return 0;
    }
    if (strcmp(verb, "show") == 0) {
        show(arg);
        look(arg);
        return 0;
    }
    if (strcmp(verb, "put") == 0) {
        put(arg, "by another image");
        return 0;
    }
    if (strcmp(verb, "offset") == 0) {
        R(lseek(fd, 0, SEEK_CUR));
        R(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
        return 0;
    }
    if (strcmp(verb, "write") == 0) {
        R(write(fd, "image", 5));
        R(lseek(fd, 0, SEEK_CUR));
        return 0;
    }
    if (strcmp(verb, "write_close") == 0) {
        R(write(fd, "image", 5));
        R(close(fd));
        return 0;
    }
    if (strcmp(verb, "read") == 0) {
        char four[4];

        R(read(fd, four, 4));
        note_bytes("read", four, 4);
        return 0;
    }
    if (strcmp(verb, "stdout") == 0) {
        printf("%s", arg);
        return 0;
    }
    if (strcmp(verb, "fds") == 0) {
        for (fd = 3; fd < 1024; fd++)
            if (fcntl(fd, F_GETFD) >= 0)
                note_int("open descriptor", fd, UNTOUCHED);
        return 0;
    }
    if (strcmp(verb, "lock") == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        fd = open(arg, O_RDWR);
        R(fcntl(fd, F_SETLK, &lock));
        close(fd);
        return 0;
    }
    return 94;
}
