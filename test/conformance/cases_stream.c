/* cases_stream.c - streams, temporary files, pipes to programs */
#include "conform.h"

#include <stdio_ext.h>

static const char *const modes[] = {
    "r",  "w",   "a",  "r+", "w+",   "a+", "rb", "r+b", "wb+", "wx",          "w+x",
    "re", "wbe", "rm", "ac", "rb+e", "z",  "",   "+r",  "ax",  "r,ccs=UTF-8", "wF",
};

static void use(FILE *stream)
{
    char text[64];

    R(fcntl(fileno(stream), F_GETFL) & (O_ACCMODE | O_APPEND));
    R(fcntl(fileno(stream), F_GETFD));
    note_str("fgets", fgets(text, sizeof text, stream));
    R(fseek(stream, 0, SEEK_CUR));
    R(fputs("written", stream));
    R(fflush(stream));
    R(ftell(stream));
    R(fseek(stream, 0, SEEK_SET));
    note_str("fgets", fgets(text, sizeof text, stream));
    R(fclose(stream));
}

static void open_state(long mode, long state)
{
    const char *path = make_state("f", (enum state)state);
    FILE *stream = P(fopen(path, modes[mode]));

    if (stream)
        use(stream);
    show("f");
}

static void open64_state(long mode, long state)
{
    const char *path = make_state("f", (enum state)state);
    FILE *stream = P(fopen64(path, modes[mode]));

    if (stream)
        use(stream);
    show("f");
}

/* a: mode; b: 0 another path, 1 the same, 2 none, 3 a missing directory, 4 from a closed fd
 */
static void reopen(long mode, long how)
{
    static const char *const paths[] = {"g", "f", NULL, "no/f", "g"};
    FILE *stream = P(fopen("f", "w+"));

    put("g", "content of g");
    R(fputs("first", stream));
    if (how == 4)
        close(fileno(stream));
    stream = freopen(paths[how], modes[mode], stream);
    /* What a success does to errno is libc's affair: it may have tried the closed one. */
    note_int("freopen", stream ? 0 : -1, stream ? UNTOUCHED : errno);
    if (stream) {
        R(fileno(stream));
        use(stream);
    }
    show("f");
    show("g");
}

static void reopen_stdout(long unused, long unused2)
{
    (void)unused, (void)unused2;
    P(freopen("out", "w", stdout));
    R(fileno(stdout));
    printf("printed");
    R(fflush(stdout));
    show("out");
    printf(" and more");
    P(freopen64("out2", "w", stdout));
    show("out");
    printf("second");
    /* exit flushes it */
}

static void fdopen_modes(long mode, long flags)
{
    int fd;
    FILE *stream;

    put("f", "old content");
    fd = R(open("f", (int)flags));
    stream = P(fdopen(fd, modes[mode]));
    if (stream)
        use(stream);
    else
        R(close(fd));
    show("f");
}

/* A stream whose descriptor the program closes or replaces behind its back. */
static void descriptor_behind(long how, long unused)
{
    FILE *stream = P(fopen("f", "w"));
    int fd = fileno(stream), other;

    (void)unused;
    R(fputs("buffered", stream));
    if (how == 0) {
        R(close(fd));
        R(fclose(stream));
    } else if (how == 1) {
        other = R(open("g", O_WRONLY | O_CREAT, 0644));
        R(dup2(other, fd));
        R(close(other));
        R(fclose(stream));
    } else if (how == 2) {
        other = R(dup(fd));
        R(fclose(stream));
        R(write(other, "+", 1));
        show("f");
        R(close(other));
    } else {
        R(close(fd));
        R(open("g", O_WRONLY | O_CREAT, 0644));
        R(fclose(stream));
        R(write(fd, "x", 1));
    }
    show("f");
    show("g");
}

static void full_device(long unused, long unused2)
{
    FILE *stream = P(fopen("/dev/full", "w"));

    (void)unused, (void)unused2;
    R(fputs("x", stream));
    R(fflush(stream));
    R(fclose(stream));
    symlink("/dev/full", "full");
    stream = P(fopen("full", "w"));
    R(fputs("x", stream));
    R(fclose(stream));
}

static void all_streams(long unused, long unused2)
{
    FILE *stream = P(fopen("f", "w")), *other = P(fopen("g", "w"));

    (void)unused, (void)unused2;
    fputs("one", stream);
    fputs("two", other);
    R(fflush(NULL));
    show("f");
    fputs("+", stream);
    R(fcloseall());
    show("f");
    show("g");
}

static void buffers(long how, long unused)
{
    FILE *stream = P(fopen("f", "w+"));

    (void)unused;
    setvbuf(stream, NULL, how == 0 ? _IONBF : how == 1 ? _IOLBF : _IOFBF, 8);
    fputs("line\nrest", stream);
    show("f");
    R(__fpending(stream) == 0);
    R(ftruncate(fileno(stream), 2));
    R(fclose(stream));
    show("f");
}

/* --- temporary files --- */

enum maker {
    MKSTEMP,
    MKSTEMP64,
    MKOSTEMP,
    MKOSTEMP64,
    MKSTEMPS,
    MKSTEMPS64,
    MKOSTEMPS,
    MKOSTEMPS64,
    MKDTEMP,
    MAKERS
};
static const char *const maker_names[MAKERS] = {
    "mkstemp",    "mkstemp64", "mkostemp",    "mkostemp64", "mkstemps",
    "mkstemps64", "mkostemps", "mkostemps64", "mkdtemp",
};

static int make(enum maker maker, char *name, int suffix)
{
    switch (maker) {
    case MKSTEMP:
        return R(mkstemp(name));
    case MKSTEMP64:
        return R(mkstemp64(name));
    case MKOSTEMP:
        return R(mkostemp(name, O_CLOEXEC));
    case MKOSTEMP64:
        return R(mkostemp64(name, O_APPEND));
    case MKSTEMPS:
        return R(mkstemps(name, suffix));
    case MKSTEMPS64:
        return R(mkstemps64(name, suffix));
    case MKOSTEMPS:
        return R(mkostemps(name, suffix, O_SYNC));
    case MKOSTEMPS64:
        return R(mkostemps64(name, suffix, O_CLOEXEC));
    default:
        return P(mkdtemp(name)) ? R(open(name, O_RDONLY | O_DIRECTORY)) : -1;
    }
}

static void temporary(long maker, long which)
{
    static const char *const templates[] = {"tXXXXXX", "XXXXXX.txt",  "no/tXXXXXX",
                                            "tXXXXX",  "./d/tXXXXXX", "tXXXXXX.txt"};
    struct stat st;
    char name[4200], cwd[4096];
    int suffix = which == 1 || which == 5 ? 4 : 0, fd;

    mkdir("d", 0755);
    snprintf(name, sizeof name, "%s", templates[which]);
    if (which == 0) /* once by an absolute path */
        snprintf(name, sizeof name, "%s/tXXXXXX", getcwd(cwd, 4096));
    fd = make((enum maker)maker, name, suffix);
    note_str("changed", strstr(name, "XXXXXX") ? "no" : "yes");
    if (fd < 0)
        return;
    R(fcntl(fd, F_GETFD));
    R(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_DIRECTORY));
    R(write(fd, "temporary", 9));
    if (R(lstat(name, &st)) == 0)
        note_stat("lstat", &st);
    R(close(fd));
    /* The usual end: into its final name. */
    R(rename(name, "final"));
    look("final");
    R(access(name, F_OK));
}

static void nameless(long which, long unused)
{
    FILE *stream = which ? P(tmpfile64()) : P(tmpfile());
    char text[64];

    (void)unused;
    R(fputs("nobody sees it", stream));
    rewind(stream);
    note_str("fgets", fgets(text, sizeof text, stream));
    R(fclose(stream));
}

/* --- programs at the end of a pipe --- */

static void pipe_to(long which, long unused)
{
    static const char *const commands[] = {
        "cat > f", "cat >> f; echo end >> f", "exit 3", "cat | tr a-z A-Z > f",
        /* a shell gives /dev/null to what runs beside it */
        "exec 3<&0; cat <&3 > f & wait"};
    FILE *stream = P(popen(commands[which], "w"));

    (void)unused;
    if (which != 2) /* which has gone, or not yet */
        R(fputs("to the program\n", stream));
    R(pclose(stream));
    show("f");
    look("f");
}

static void pipe_from(long unused, long unused2)
{
    FILE *stream;
    char text[64];

    (void)unused, (void)unused2;
    put("f", "content\n");
    stream = P(popen("cat f", "re"));
    note_str("fgets", fgets(text, sizeof text, stream));
    note_str("fgets", fgets(text, sizeof text, stream));
    R(pclose(stream));
}

static void shell(long which, long unused)
{
    static const char *const commands[] = {
        "echo x > f",
        "echo a > f; cat f f > g",
        "exec 3> f; echo x >&3; exec 3>&-",
        "{ echo a; echo b; } > f",
        "echo here > f; mv f g",
        "exit 7",
        "kill -9 $$",
        "cat none",
        "(echo sub > f) & wait",
        "cat > f <<E\nhere\nE\n",
        "echo a | tee f > g",
        "set -C; echo 1 > f; echo 2 > f",
        "test -e f || echo no > f; cat f; rm f",
        "mkdir -p d/e && echo in > d/e/f && cp -r d c",
        "echo 1 > f; ln f g; ln -s f h; cat h > i",
    };

    (void)unused;
    R(system(commands[which]));
    show("f");
    show("g");
}

void add_stream_cases(void)
{
    static const enum state states[] = {MISSING,      A_FILE,   EMPTY_FILE, A_DIRECTORY,
                                        LINK_TO_FILE, DANGLING, READ_ONLY,  NO_PARENT};

    for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++)
        for (size_t i = 0; i < sizeof states / sizeof *states; i++)
            conform_add(open_state, (long)mode, states[i], "stream.fopen.%s.%s",
                        *modes[mode] ? modes[mode] : "none", state_names[states[i]]);
    for (long mode = 0; mode < 6; mode++) {
        conform_add(open64_state, mode, A_FILE, "stream.fopen64.%s", modes[mode]);
        for (long how = 0; how < 5; how++)
            conform_add(reopen, mode, how, "stream.freopen.%s.%ld", modes[mode], how);
        conform_add(fdopen_modes, mode, O_RDWR, "stream.fdopen.%s.RDWR", modes[mode]);
        conform_add(fdopen_modes, mode, O_WRONLY, "stream.fdopen.%s.WRONLY", modes[mode]);
    }
    ADD("stream", reopen_stdout);
    for (long how = 0; how < 4; how++)
        conform_add(descriptor_behind, how, 0, "stream.behind.%ld", how);
    ADD("stream", full_device);
    ADD("stream", all_streams);
    for (long how = 0; how < 3; how++)
        conform_add(buffers, how, 0, "stream.buffer.%ld", how);
    for (long maker = 0; maker < MAKERS; maker++)
        for (long which = 0; which < 6; which++)
            conform_add(temporary, maker, which, "temporary.%s.%ld", maker_names[maker],
                        which);
    conform_add(nameless, 0, 0, "temporary.tmpfile");
    conform_add(nameless, 1, 0, "temporary.tmpfile64");
    for (long which = 0; which < 5; which++)
        conform_add(pipe_to, which, 0, "program.popen.%ld", which);
    ADD("program", pipe_from);
    for (long which = 0; which < 15; which++)
        conform_add(shell, which, 0, "program.system.%ld", which);
}
