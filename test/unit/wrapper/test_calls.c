/*
 * test_calls.c - what programs do below a managed directory, and what the engine then hears
 *
 * Each case runs a real program with the wrapper preloaded and a fake engine
 * (fake_engine.c) beside it, in a directory of its own: dmd (managed, the working
 * directory), out (not managed), alias (a link to dmd), remote (what is "published
 * elsewhere": r, with seven bytes). The log must be exactly the expected one, the member's
 * own lines aside, which have cases of their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paths.h" /* TEST_PRELOAD, TEST_ACTOR, TEST_FSTREAM; made by cmake */

#define ACTOR(...)              \
    {                           \
        TEST_ACTOR, __VA_ARGS__ \
    }
#define DIRS(name)            \
    {                         \
        TEST_ACTOR_DIRS, name \
    }
#define SH(shell, script)   \
    {                       \
        shell, "-c", script \
    }
#define BOUND 20 /* seconds */

enum {
    UNLAUNCHED = 1 << 0,  /* no PMIx variables */
    WITH_MEMBER = 1 << 1, /* the log has the member's lines */
    SORTED = 1 << 2,      /* the order of lines is not ours to know */
    COUNTED =
        1 << 3, /* only the number of "published" lines is compared: log is a decimal */
    USES_ALIAS = 1 << 4, /* DYAD_PATH is the link */
    TWO_DIRS = 1 << 5,   /* out is the producer's directory */
    LINKS = 1 << 8,      /* see publish_links() */
    NO_ASAN = 1 << 7,    /* starts a program without ASAN_OPTIONS */
    MEMHOOK = 1 << 9,    /* with a library that watches memory */
    SYSTEM = 1 << 6,     /* not our program: cannot be run with a sanitizer's library */
};

struct call_case {
    const char *name;
    const char *argv[8]; /* %o, %a: the directories out and alias */
    const char *log;     /* NULL: the engine must not be loaded */
    const char *other;   /* what it may be as well, by who is quicker; NULL: nothing */
    int rc;
    const char *out; /* standard output; NULL: not compared */
    unsigned how;
    const char *env[3];
};

/* Of act_rdwr. What is not there is waited for, but not for H5Fcreate and truncate; who
 * makes the file is, but not for MPI_File_open and truncate. freopen asks beforehand. */
#define LATE_RW "write_begin p late rw\nwrite_aborted late\n"
#define MAKING  "write_begin p dirty making\n"
#define OPENED_RDWR                                                                       \
    "write_begin p r rw\n" P("r", "7") LATE_RW                                            \
        "consume c late update -1\n" LATE_RW "consume c late update -1\n" LATE_RW         \
        "write_begin p late w\nwrite_aborted late\n" MAKING "write_begin p dirty rw\n" P( \
            "dirty", "2") "write_begin p dirty w\n" P("dirty", "2") MAKING                \
        "consume c dirty update 0\nwrite_begin p dirty rw\nwrite_aborted dirty\n"         \
        "write_begin p dirty rw\n" P("dirty", "9")
#define MADE_SINCE    "write_begin p dirty rw\nwrite_opened dirty made\n"
#define OPENED_DIRTY  "write_begin p dirty rw\n" P("dirty", "9")
#define W(name)       "write_begin p " name " w,creat,trunc\n"
#define MADE(name)    "lookup p " name " -1\nchanged p " name " 40700\n"
#define REMOVED(name) "list p " name " 0\nunlinked p " name " here -1\n"
#define P(name, size) "published " name " " size " error 0 mapped 0\n"

static const struct call_case
    cases[] =
        {
            {.name = "unflushed stream at exit",
             .argv = ACTOR("unflushed"),
             .log = W("f") P("f", "9")},
            {.name = "another thread holds stdin at exit",
             .argv = ACTOR("unflushed_busy"),
             .log = W("f") P("f", "4")},
            {.name = "_exit",
             .argv = ACTOR("exit_now"),
             .log = W("f") P("f", "3"),
             .rc = 7},
            {.name = "quick_exit runs its functions first",
             .argv = ACTOR("quick_exit"),
             .log = W("f") P("f", "9"),
             .rc = 8},
            {.name = "written by an atexit function",
             .argv = ACTOR("atexit"),
             .log = W("end") P("end", "3")},
            {.name = "fopen modes",
             .argv = ACTOR("modes"),
             .log = W("m0") P("m0", "0") "write_begin p m1 w,creat,append\n" P("m1", "0") "write_begin p m2 rw,creat,trunc\n" P(
                 "m2",
                 "0") "write_begin p m3 rw,creat,append\n" P("m3",
                                                             "0") "write_begin p m4 "
                                                                  "rw,creat,"
                                                                  "trunc\n" P(
                                                                      "m4",
                                                                      "0") "w"
                                                                           "r"
                                                                           "i"
                                                                           "t"
                                                                           "e"
                                                                           "_"
                                                                           "b"
                                                                           "e"
                                                                           "g"
                                                                           "i"
                                                                           "n"
                                                                           " "
                                                                           "p"
                                                                           " "
                                                                           "m"
                                                                           "5"
                                                                           " "
                                                                           "w"
                                                                           ","
                                                                           "c"
                                                                           "r"
                                                                           "e"
                                                                           "a"
                                                                           "t"
                                                                           ","
                                                                           "t"
                                                                           "r"
                                                                           "u"
                                                                           "n"
                                                                           "c"
                                                                           ","
                                                                           "e"
                                                                           "x"
                                                                           "c"
                                                                           "l"
                                                                           "\n" P("m5", "0") "write_begin p m0 rw\n" P(
                                                                               "m0", "0") "write_begin p m0 rw\n" P("m0",
                                                                                                                    "0")
                                                                               W("m8") P(
                                                                                   "m8",
                                                                                   "0") "wr"
                                                                                        "it"
                                                                                        "e_"
                                                                                        "be"
                                                                                        "gi"
                                                                                        "n "
                                                                                        "p "
                                                                                        "m0"
                                                                                        " w"
                                                                                        ",c"
                                                                                        "re"
                                                                                        "at"
                                                                                        ",t"
                                                                                        "ru"
                                                                                        "nc"
                                                                                        ",e"
                                                                                        "xc"
                                                                                        "l"
                                                                                        "\n"
                                                                                        "wr"
                                                                                        "it"
                                                                                        "e_"
                                                                                        "ab"
                                                                                        "or"
                                                                                        "te"
                                                                                        "d "
                                                                                        "m0"
                                                                                        "\n"},
            {.name = "dup2 over a file",
             .argv = ACTOR("dup2_over"),
             .log = W("a") W("b") P("a", "1") P("b", "2")},
            {.name = "dup2 that fails",
             .argv = ACTOR("dup2_fails"),
             .log = W("a") P("a", "2")},
            {.name = "one description, five descriptors",
             .argv = ACTOR("dups"),
             .log = W("a") P("a", "2")},
            {.name = "closefrom, close_range",
             .argv = ACTOR("closefrom"),
             .log = W("a") W("b") P("a", "1") P("b", "1") W("c") W("d") P("c", "1")
                 P("d", "1")},
            {.name = "close everything",
             .argv = ACTOR("close_loop"),
             .log = W("a") P("a", "1")},
            {.name = "eight threads",
             .argv = ACTOR("threads"),
             .log = "800",
             .how = COUNTED},
            {.name = "four threads dup one description",
             .argv = ACTOR("dup_threads"),
             .log = W("f") P("f", "1")},
            {.name = "fork while a thread opens a FIFO",
             .argv = ACTOR("fork_fifo"),
             .log = "lookup p fifo -1\nwrite_begin p fifo "
                    "w\nfork_child\nfork_child\nfork_child\nfork_child\n"
                    "fork_child\nfork_child\nwrite_aborted fifo\n"},
            {.name = "exec with an open file",
             .argv = ACTOR("exec_inherit"),
             .log = W("f") "write_inherited p f\n" P("f", "5")},
            {.name = "exec closes the file",
             .argv = ACTOR("exec_cloexec"),
             .log = W("f") "published f 1 error 0 mapped 1\n"},
            {.name = "exec fails",
             .argv = ACTOR("exec_fails"),
             .log = W("f") "published f 1 error 0 mapped 1\nwrite_inherited p f\n"
                           "published f 1 error 0 mapped 1\nwrite_inherited p f\n" P("f",
                                                                                     "5")},
            {.name = "exec with an empty environment",
             .argv = ACTOR("exec_env"),
             .log = NULL,
             .how = NO_ASAN},
            {.name = "spawn with an empty environment",
             .argv = ACTOR("spawn_env"),
             .log = NULL,
             .how = UNLAUNCHED | NO_ASAN},
            {.name = "fork",
             .argv = ACTOR("fork"),
             .log = W("f") "fork_child\nheld f\n" P("f", "6")},
            {.name = "vfork", .argv = ACTOR("vfork"), .log = W("f") P("f", "7")},
            {.name = "daemon",
             .argv = ACTOR("daemon"),
             .log = W("before") P("before", "1") "fork_child\nfork_child\n" W("after")
                 P("after", "1")},
            {.name = "NULL, bad descriptors",
             .argv = ACTOR("null"),
             .log = NULL,
             .how = UNLAUNCHED},
            {.name = "errno",
             .argv = ACTOR("errno"),
             .log = "write_begin p f rw,creat\n" P(
                 "f", "0") "read_check c f 0\nrenamed p f g\n"
                           "unlinked p g here -1\nconsume c r wait 0\nread_check c r 0\n"},
            {.name = "locks to the end of the file",
             .argv = ACTOR("locks"),
             .log = "1",
             .how = COUNTED},
            {.name = "mmap",
             .argv = ACTOR("mmap"),
             .log = "write_begin p f rw,creat\n" W("mid") P("mid", "1") P("f", "4096")},
            {.name = "mmap, unmapped in pieces",
             .argv = ACTOR("mmap_pieces"),
             .log = "write_begin p f rw,creat\nrenamed p f g\n" W("mid") P("mid", "1")
                 P("g", "32768")},
            {.name = "mmap, where a library watches memory",
             .argv = ACTOR("mmap_pieces"),
             .log = "write_begin p f rw,creat\nrenamed p f g\n" W("mid") P("mid", "1")
                 P("g", "32768"),
             .how = MEMHOOK},
            {.name = "syscall(), where a library watches memory",
             .argv = ACTOR("syscall"),
             .log = W("f") P("f", "1") "write_begin p f w\n" P(
                 "f", "0") "renamed p f g\nunlinked p g here -1\n" W("h") P("h", "1"),
             .how = MEMHOOK},
            {.name = "mmap, to the end",
             .argv = ACTOR("mmap_exit"),
             .log = "write_begin p f rw,creat\n" W("mid")
                 P("mid", "1") "published f 4096 error 0 mapped 1\n"},
            {.name = "mmap, not to write",
             .argv = ACTOR("mmap_private"),
             .log = "write_begin p f rw,creat\npublished f 4096 error 0 mapped 1\n" W("mid")
                 P("mid", "1")},
            {.name = "mmap in two processes",
             .argv = ACTOR("mmap_fork"),
             .log = "write_begin p f rw,creat\nfork_child\nheld f\n" P("f", "4096")},
            {.name = "truncate",
             .argv = ACTOR("truncate"),
             .log = W("f")
                 P("f", "4") "write_begin p f w\n" P("f", "2") "write_begin p r w\n" P(
                     "r", "3") "write_begin p no w\nwrite_aborted "
                               "no\n" MADE("dir") "write_begin p dir "
                                                  "w\nwrite_aborted "
                                                  "dir\nlookup p fifo "
                                                  "-1\n"
                                                  "write_begin p fifo "
                                                  "w\nwrite_aborted "
                                                  "fifo\n"},
            {.name = "syscall()",
             .argv = ACTOR("syscall"),
             .log = W("f") P("f", "1") "write_begin p f w\n" P(
                 "f", "0") "renamed p f g\nunlinked p g here -1\n" W("h") P("h", "1")},
            {.name = "vfork, exec with the file as output",
             .argv = ACTOR("vfork_exec"),
             .log = "*published f 7 error 0",
             .how = SYSTEM},
            {.name = "popen, system, fdopen, fcloseall, pclose",
             .argv = ACTOR("popen"),
             .log = W("f") P("f", "5"),
             .how = SYSTEM},
            {.name = "daemon lets go of its output",
             .argv = ACTOR("daemon_output"),
             .log = W("f") "fork_child\n" P("f", "1") W("after") P("after", "1"),
             .other = W("f") "fork_child\nheld f\n" W("after")
                 P("after", "1")}, /* by the parent, which has yet to end */
            {.name = "member: daemon",
             .argv = ACTOR("member_daemon"),
             .log = "fork_child\nleave exec\nleave exit\nlookup c touch -1\nmember_left\n"
                    "member_left\nmember_run claim\nmember_run claim\n",
             .how = WITH_MEMBER | SORTED},
            {.name =
                 "file and fork in a constructor, while another thread loads the engine",
             .argv = ACTOR("constructor"),
             .log = "2",
             .how = COUNTED},
            {.name = "signal handler",
             .argv = ACTOR("handler"),
             .log = "*published h 1 error 0"},
            {.name = "signal mask",
             .argv = ACTOR("mask"),
             .log = W("f") P("f", "1") "consume c r wait 0\nread_check c r 0\n"
                                       "consume c no wait -1\nconsume c late wait -1\n"},
            {.name = "freopen",
             .argv = ACTOR("freopen"),
             .log = W("a") W("b") P("a", "4") "consume c r wait 0\nread_check c r 0\n"
                                              "consume c nothing wait -1\n" P("b", "5")},
            {.name = "names",
             .argv = ACTOR("names", "%o"),
             .log = "renamed p - a\nrenamed p a b\nlookup p c -1\nrenamed p - c\n"
                    "changed p b 100644\nlookup p d -1\n"
                    "renamed p - d\nchanged p b 100644\nrenamed p - d\nrenamed p - c\n"
                    "renamed p b -\nunlinked p c here -1\nunlinked p d here -1\n"
                    "lookup p r 0\nunlinked p r elsewhere 0\nlookup p r -1\n" MADE("sub")
                        REMOVED("sub") MADE("sub") REMOVED("sub")},
            {.name = "stat and access",
             .argv = ACTOR("stat"),
             .log =
                 "consume c r now 0\n"
                 "lookup c no -1\nlookup c no -1\n"
                 "lookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r "
                 "0\nlookup c r 0\n"
                 "lookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r "
                 "0\nlookup c r 0\n"
                 "lookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r 0\nlookup c r 0\n",
             .how = SORTED},
            {.name = "paths",
             .argv = ACTOR("paths", "%a", "%o"),
             .log = MADE("s") W("s/a") P("s/a", "1") W("b") P("b", "1") W("c")
                 P("c", "1") "write_begin p s/d w,creat\n" P("s/d", "0") W("f") P("f", "1"),
             .how = USES_ALIAS},
            {.name = "not regular files",
             .argv = ACTOR("kinds"),
             .log = "lookup p fifo -1\nwrite_begin p fifo rw\nwrite_aborted fifo\n" MADE(
                 "kdir") "write_begin p kdir w\nwrite_aborted kdir\n"
                         "consume c lock now -1\nread_check c lock 0\nrenamed p - "
                         "lock\nconsume c none now "
                         "-1\n"},
            {.name = "read-write, timeouts, dirty",
             .argv = ACTOR("rdwr"),
             .log = OPENED_RDWR "consume c late wait -1\n"
                                "consume c late wait -1\nread_check c dirty 1\nconsume "
                                "c dirty wait 0\nread_check c dirty 0\n"},
            /* Before each real open whose file was not just waited for. */
            {.name = "shared storage",
             .argv = ACTOR("rdwr"),
             .log = OPENED_RDWR "read_begin c late\nconsume c late wait -1\n"
                                "read_begin c late\nconsume c late wait -1\n"
                                "read_begin c dirty\nread_check c dirty 1\nconsume "
                                "c dirty wait 0\nread_check c dirty 0\n",
             .env = {"FAKE_SHARES=1"}},
            /* Only what was there when it was asked for is taken for complete. */
            {.name = "a file that is pending",
             .argv = ACTOR("pending"),
             .log = "consume c r wait 0\nread_check c r 2\nconsume c r wait 0\nread_check "
                    "c r 2\n"
                    "read_check c r 2\nconsume c r wait 0\nread_check c r 2\n"},
            /* What was opened is closed, and the file waited for; but not by a library. */
            {.name = "a file that is made while it is opened",
             .argv = ACTOR("made_since"),
             .log = MAKING "consume c dirty update 0\n" MADE_SINCE
                           "consume c dirty update 0\n" OPENED_DIRTY MADE_SINCE
                           "consume c dirty update 0\n" OPENED_DIRTY MADE_SINCE OPENED_DIRTY
                           "write_begin p dirty rw,creat\n" P(
                               "dirty", "9") "write_begin p dirty w\n" P("dirty", "1")},
            {.name = "publish fails",
             .argv = ACTOR("publish_error"),
             .log = W("a") P("a", "1") W("b") P("b", "0"),
             .env = {"FAKE_PUBLISH_ERROR=1"}},
            {.name = "flush fails",
             .argv = ACTOR("flush_error"),
             .log = W("f") "published f 65536 error 27 mapped 0\n"},
            {.name = "closed where no wrapper sees it",
             .argv = ACTOR("stale"),
             .log = W("a") W("b") P("a", "1") P("b", "1") W("c") P("c", "1")},
            {.name = "DYAD_PATH_RELATIVE",
             .argv = ACTOR("relative", "%o"),
             .log = W("f") P("f", "1") "consume c r wait 0\nread_check c r 0\nrenamed p f "
                                       "g\nunlinked p g here -1\n",
             .env = {"DYAD_PATH_RELATIVE=1"}},
            {.name = "published links and directories",
             .argv = ACTOR("published"),
             .log = "consume c link wait 0\nconsume c r wait 0\nread_check c r 0\n"
                    "bring_parents c dirlink/f -1\nbring_parents c pub/f 0\n"
                    "consume c pub/f wait 0\nread_check c pub/f 0\n"
                    "consume c link2 wait 0\n"
                    "write_begin p new/w w,creat\nwrite_aborted new/w\n"
                    "bring_parents c new/w 0\nwrite_begin p new/w w,creat\n" P("new/w", "0")
                        W("newlink/w2") "write_aborted newlink/w2\n"
                                        "bring_parents c newlink/w2 -1\n" W("new/w2")
                                            P("new/w2",
                                              "0") "consume c empty now 0\n"
                                                   "consume c stale stale\nconsume c stale "
                                                   "wait 0\nread_check c stale 0\n"
                                                   "consume c away wait 0\n",
             .how = LINKS},
            {.name = "directories that are nowhere",
             .argv = ACTOR("no_parent"),
             .log = "*bring_parents c unknown/XXXXXX -1\n"},
            {.name = "a look below directories that are nowhere",
             .argv = ACTOR("look_below"),
             .log = "*lookup c none/f -1\nbring_parents c none/f -1\n"
                    "lookup c made/f -1\nlookup c pub/f 0\nlookup c pub/none -1\n"
                    "bring_parents c pub/none 0\n",
             .how = LINKS},
            {.name = "ways to one file",
             .argv = ACTOR("ways", "%o"),
             .log = "lookup p s -1\nchanged p s 40700\n" W("s/a") P("s/a", "1") W("b")
                 P("b", "1") W("through") P("through", "1") W("c") P("c", "1") W("s/d")
                     P("s/d", "1") "write_begin p e w,creat\n" W("e") "held e\n" P(
                         "e", "1") "consume c r wait 0\nread_check c r 0\n"
                                   "consume c stale stale\nconsume c stale "
                                   "wait 0\nread_check c stale 0\n",
             .how = LINKS},
            {.name = "two directories",
             .argv = ACTOR("two_dirs", "%o"),
             .log = W("f") "published ?%o/f -1 error 0 mapped 0\nconsume c r wait "
                           "0\nread_check c r 0\nrenamed c - g\n"
                           "renamed p f -\n",
             .how = TWO_DIRS},
            {.name = "fstream",
             .argv = {TEST_FSTREAM},
             .log = W("f") P("f", "6") "write_begin p f w,creat,append\n" P(
                 "f",
                 "12") "write_begin p f rw\n" P("f",
                                                "12") "read_check c f 0\nconsume c r wait "
                                                      "0\nread_check c r 0\n" W("static")
                                                          P("static", "6"),
             .out = "Jello\nremote\n"},
            {.name = "member: nothing is touched",
             .argv = ACTOR("nothing"),
             .log = "leave exit\nmember_left\nmember_run claim\n",
             .how = WITH_MEMBER | SORTED},
            {.name = "member: exec before it joined",
             .argv = ACTOR("member_close"),
             .log = "leave exit\nmember_left\nmember_run claim\n",
             /* it had joined, since the program did not come to its exec for 5 ms */
             .other = "leave exec\nleave exit\nmember_left\nmember_left\n"
                      "member_run claim\nmember_run claim\n",
             .how = WITH_MEMBER | SORTED},
            {.name = "member: exec after it joined",
             .argv = ACTOR("member_exec"),
             .log = "leave exec\nleave exit\nlookup c touch "
                    "-1\nmember_left\nmember_left\nmember_run claim\n"
                    "member_run claim\n",
             .how = WITH_MEMBER | SORTED},
            {.name = "member: dup2 over its claim",
             .argv = ACTOR("member_dup2"),
             .log = "leave exit\nmember_left\nmember_run claim\n",
             .how = WITH_MEMBER | SORTED},
            {.name = "member: cannot join",
             .argv = ACTOR("atexit"),
             .log = W("end") P("end", "3"),
             .env = {"FAKE_MEMBER_ERROR=1"}},
            {.name = "member: PMIX_MCA_gds", .argv = ACTOR("gds"), .log = NULL},
            {.name = "engine declines",
             .argv = ACTOR("unflushed"),
             .log = NULL,
             .env = {"FAKE_NO_SETUP=1"}},
            {.name = "no launcher",
             .argv = ACTOR("unflushed"),
             .log = W("f") P("f", "9"),
             .how = UNLAUNCHED},
            {.name = "directories: listed",
             .argv = DIRS("listing"),
             .log = "*list c . 3\n"},
            {.name = "directories: listed, and only published",
             .argv = DIRS("listing_published"),
             .log = "*list c tree 5\n"},
            {.name = "directories: DYAD_LISTING=off",
             .argv = DIRS("listing_off"),
             .log = "*list c . -1\n",
             .env = {"DYAD_LISTING=off"}},
            {.name = "directories: eight threads",
             .argv = DIRS("threads"),
             .log = "*list c tree 5\n"},
            {.name = "directories: scandir",
             .argv = DIRS("scandir"),
             .log = "*list c tree 5\n"},
            {.name = "directories: glob",
             .argv = DIRS("glob"),
             .log = "*list c tree/sub 1\n"},
            {.name = "directories: nftw, ftw, fts",
             .argv = DIRS("walk"),
             .log = "*write_begin p tree/sub/deep w,append\npublished tree/sub/deep 6"},
            {.name = "directories: realpath",
             .argv = DIRS("realpath"),
             .log = "*lookup c "},
            {.name = "directories: links",
             .argv = DIRS("links"),
             .log = "*lookup c tree/sub/deep 0\n"},
            {.name = "directories: what is made",
             .argv = DIRS("make"),
             .log = "*changed p tree/sub/new 40700\n"},
            {.name = "directories: what is removed",
             .argv = DIRS("remove"),
             .log = "*list p tree 0\nunlinked p tree here 0\n"},
            {.name = "directories: what is renamed",
             .argv = DIRS("move"),
             .log = "*bring_tree c tree\nrenamed p tree moved\n"},
            {.name = "a file that is named while it is open",
             .argv = DIRS("unnamed"),
             .log = "lookup p named -1\nwrite_begin p named rw,creat,trunc,excl\n" P(
                 "named", "6")},
            {.name = "attributes",
             .argv = DIRS("attributes"),
             .log =
                 "lookup c r 0\nlookup c tree/link 0\nlookup c tree/f 0\nlookup c none -1\n"
                 "lookup c r 0\nconsume c r now 0\nchanged p r 100444\nlookup c none -1\n"
                 "lookup c tree/link 0\nconsume c tree/link now 0\nlookup c tree/sub/deep "
                 "0\n"
                 "consume c tree/sub/deep now 0\nchanged p tree/sub/deep 100644\n"
                 "lookup c tree/f 0\nconsume c tree/f now 0\nchanged p tree/f 100644\n"
                 "changed p tree/f 100644\nchanged p tree/f 100644\nchanged p tree/f "
                 "100644\n"
                 "read_check c tree/f 0\nchanged p tree/f 100600\n"
                 "write_begin p own w,creat\n" P("own", "0")},
            {.name = "bash redirects a builtin",
             .argv = SH("bash", "echo x > f"),
             .log = W("f") P("f", "2"),
             .how = SYSTEM},
            {.name = "dash redirects a builtin",
             .argv = SH("dash", "echo x > f"),
             .log = W("f") P("f", "2"),
             .how = SYSTEM},
            {.name = "bash redirects a program",
             .argv = SH("bash", "cat r > f; :"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "dash redirects a program",
             .argv = SH("dash", "cat r > f; :"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "bash redirects a group",
             .argv = SH("bash", "{ cat r; cat r; } > f; :"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "dash redirects a group",
             .argv = SH("dash", "{ cat r; cat r; } > f; :"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "bash redirects itself",
             .argv = SH("bash", "exec > f; echo a; cat r; echo b"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "bash appends",
             .argv = SH("bash", "echo a >> f; echo b >> f; cat f"),
             .log = "2",
             .out = "a\nb\n",
             .how = SYSTEM | COUNTED},
            {.name = "bash execs",
             .argv = SH("bash", "exec cat r"),
             .log = "consume c r wait 0\nread_check c r 0\n",
             .out = "remote\n",
             .how = SYSTEM},
            {.name = "one description, stdout and stderr",
             .argv = SH("bash", "bash -c 'echo a; echo b >&2' > f 2>&1; :"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "cat",
             .argv = {"cat", "r", "none"},
             .log = "consume c r wait 0\nread_check c r 0\nconsume c none wait -1\n",
             .rc = 1,
             .out = "remote\n",
             .how = SYSTEM},
            {.name = "dd",
             .argv = {"dd", "if=r", "of=f", "status=none"},
             .log = "consume c r wait 0\nread_check c r 0\n" W("f") P("f", "7"),
             .how = SYSTEM},
            {.name = "cp",
             .argv = SH("dash", "cp /etc/passwd f; cmp f /etc/passwd"),
             .log = "1",
             .how = SYSTEM | COUNTED},
            {.name = "cp of a remote file",
             .argv = {"cp", "r", "%o/copy"},
             .log = "*consume c r wait 0\n",
             .how = SYSTEM},
            {.name = "mv into",
             .argv = SH("dash", "echo x > ../out/x; mv ../out/x f; cat f"),
             .log = "*renamed p - f\n",
             .out = "x\n",
             .how = SYSTEM},
            {.name = "mv within",
             .argv = SH("dash", "echo x > a; mv a b; cat b"),
             .log = "*renamed p a b\n",
             .out = "x\n",
             .how = SYSTEM},
            {.name = "rm of a remote file",
             .argv = {"rm", "r"},
             .log = "*unlinked p r elsewhere 0\n",
             .how = SYSTEM},
            {.name = "ls of a remote file",
             .argv = {"ls", "r"},
             .log = "*lookup c r 0\n",
             .out = "r\n",
             .how = SYSTEM},
            {.name = "test -f of a remote file",
             .argv = SH("bash", "test -f r && ! test -e none"),
             .log = "lookup c r 0\nlookup c none -1\n",
             .how = SYSTEM},
            {.name = "sha256sum",
             .argv = SH("bash", "sha256sum < r"),
             .log = "consume c r wait 0\nread_check c r 0\n",
             .how = SYSTEM},
            {.name = "sed -i",
             .argv = SH("dash", "echo x > f; sed -i s/x/y/ f; cat f"),
             .log = "*renamed p ",
             .out = "y\n",
             .how = SYSTEM},
            {.name = "tar c | tar x",
             .argv = SH("bash",
                        "mkdir ../out/t; echo a > ../out/t/a; echo b > ../out/t/b; "
                        "tar -C ../out -c t | tar x; cat t/a t/b"),
             .log = "2",
             .out = "a\nb\n",
             .how = SYSTEM | COUNTED},
            {.name = "python3",
             .argv = {"python3", "-E", "-c",
                      "import pathlib, shutil, subprocess, os\n"
                      "open('a', 'w').write('a')\n"
                      "with open('a', 'a') as f: f.write('b')\n"
                      "pathlib.Path('c').write_bytes(b'c')\n"
                      "shutil.copy('a', 'd')\n"
                      "print(open('r').read(), end='')\n"
                      "f = open('e', 'wb', buffering=0)\n"
                      "subprocess.run(['true'])\n"
                      "subprocess.run(['cat', 'a'], stdout=f)\n"
                      "f.close()\n"
                      "os.replace('e', 'g')\n"
                      "print(os.path.getsize('g'), os.path.exists('none'))\n"},
             .log = "5",
             .out = "remote\n2 False\n",
             .how = SYSTEM | COUNTED},
            {.name = "outside: a shell",
             .argv = SH("bash",
                        "cd ../out; echo x > f; cat f; mv f g; rm g; test -e none || cat < "
                        "/dev/null"),
             .log = NULL,
             .out = "x\n",
             .how = SYSTEM | UNLAUNCHED},
            {.name = "outside: tar and python",
             .argv = SH("bash",
                        "cd ../out; mkdir t; cp /etc/passwd t; tar c t | tar t; "
                        "python3 -E -c 'open(\"x\", \"w\").write(\"x\")'; rm -r t"),
             .log = NULL,
             .out = "t/\nt/passwd\n",
             .how = SYSTEM | UNLAUNCHED},
};

static char top[PATH_MAX - 256];
static unsigned serial;

static void path_to(char *path, const char *name)
{
    assert_true(snprintf(path, PATH_MAX, "%s/%s", top, name) < PATH_MAX);
}

static void write_file(const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *f;

    path_to(path, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void write_link(const char *name, const char *target)
{
    char path[PATH_MAX];

    path_to(path, name);
    assert_int_equal(symlink(target, path), 0);
}

static void set_up(void)
{
    static const char *const dirs[] = {"dmd", "out", "remote", "remote/tree",
                                       "remote/tree/sub"};
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX], target[PATH_MAX];

    snprintf(top, sizeof(top), "%s/dyad-wrapper-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        path_to(path, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    path_to(path, "alias");
    path_to(target, "dmd");
    assert_int_equal(symlink(target, path), 0);
    write_link("remote/tree/link", "sub/deep");
    write_link("remote/tree/dlink", "sub");
    write_link("remote/tree/dangling", "nowhere");
    write_file("remote/tree/f", "f\n");
    write_file("remote/tree/sub/deep", "deep\n");
    write_file("remote/r", "remote\n");
    write_file("remote/dirty", "complete\n");
    write_file("remote/.dirty-dirty", "");
    write_file("remote/.making-dirty", "");
    write_file("dmd/dirty", "in");
}

/* For a case with LINKS: what the other node has beside. */
static void publish_links(void)
{
    static const char *const dirs[] = {"remote/pub", "remote/new", "remote/empty"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        path_to(path, dirs[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    write_file("remote/pub/f", "in a directory\n");
    write_file("remote/stale", "stale\n");
    write_file("remote/.stale-stale", "");
    write_link("remote/link", "r");
    write_link("remote/link2", "r");
    write_link("remote/dirlink", "pub");
    write_link("remote/newlink", "new");
    write_link("remote/made", "pub");
    write_link("remote/away", "/nonexistent/away");
}

static int tear_down(void **state)
{
    char command[PATH_MAX + 16];

    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    (void)state;
    return system(command);
}

/* text with %o and %a replaced. malloc'ed. */
static char *expand(const char *text)
{
    char *out = NULL, path[PATH_MAX];
    size_t size;
    FILE *f = open_memstream(&out, &size);

    for (; *text; text++) {
        if (text[0] == '%' && (text[1] == 'o' || text[1] == 'a')) {
            path_to(path, text[1] == 'o' ? "out" : "alias");
            fputs(path, f);
            text++;
        } else {
            fputc(*text, f);
        }
    }
    fclose(f);
    return out;
}

static void set_path(const char *name, const char *dir)
{
    char path[PATH_MAX];

    path_to(path, dir);
    setenv(name, path, 1);
}

static void run_child(const struct call_case *c)
{
    char *argv[sizeof(c->argv) / sizeof(c->argv[0]) + 1] = {0}, path[PATH_MAX], text[64];
    int out;

    for (size_t i = 0; c->argv[i]; i++)
        argv[i] = expand(c->argv[i]);
    set_path("FAKE_LOG", "log");
    set_path("FAKE_ROOT", "dmd");
    set_path("FAKE_REMOTE", "remote");
    if (c->how & TWO_DIRS) {
        set_path("DYAD_PATH_PRODUCER", "out");
        set_path("DYAD_PATH_CONSUMER", "dmd");
    } else {
        set_path("DYAD_PATH", c->how & USES_ALIAS ? "alias" : "dmd");
    }
    snprintf(text, sizeof(text), "test-wrapper-%d-%u", (int)getppid(), serial);
    if (!(c->how & UNLAUNCHED)) {
        setenv("PMIX_NAMESPACE", text, 1);
        setenv("PMIX_RANK", "0", 1);
    }
    for (size_t i = 0; i < sizeof(c->env) / sizeof(c->env[0]) && c->env[i]; i++)
        putenv((char *)(uintptr_t)c->env[i]);
    /* The sanitizer's runtime comes with the program, after the preloaded library. */
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    setenv("LD_PRELOAD", c->how & MEMHOOK ? TEST_PRELOAD ":" TEST_MEMHOOK : TEST_PRELOAD,
           1);
    path_to(path, "stdout");
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(out, 1) != 1 || close(out) < 0)
        _exit(126);
    path_to(path, "dmd");
    if (chdir(path) < 0)
        _exit(126);
    alarm(BOUND); /* survives exec: a hang is a failure, not a hang */
    execvp(argv[0], argv);
    _exit(127);
}

static char *read_all(const char *name)
{
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    FILE *f;

    path_to(path, name);
    f = fopen(path, "r");
    if (!f)
        return NULL;
    if (getdelim(&text, &size, '\0', f) < 0) {
        free(text);
        text = calloc(1, 1);
    }
    fclose(f);
    return text;
}

static bool is_member_line(const char *line)
{
    return strncmp(line, "member_", 7) == 0 || strncmp(line, "leave ", 6) == 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The log's lines that count, in the order that counts. malloc'ed. */
static char *digest(const char *log, unsigned how)
{
    char *copy = strdup(log), **lines = calloc(strlen(log) + 1, sizeof(*lines)), *state;
    char *out = calloc(strlen(log) + 2, 1), *end = out;
    size_t n = 0;

    for (char *line = strtok_r(copy, "\n", &state); line;
         line = strtok_r(NULL, "\n", &state))
        if ((how & WITH_MEMBER) || !is_member_line(line))
            lines[n++] = line;
    if (how & SORTED)
        qsort(lines, n, sizeof(*lines), by_text);
    for (size_t i = 0; i < n; i++)
        end = stpcpy(stpcpy(end, lines[i]), "\n");
    free(lines);
    free(copy);
    return out;
}

static unsigned count_published(const char *log)
{
    unsigned n = 0;

    for (const char *p = strstr(log, "published "); p; p = strstr(p + 1, "published "))
        n++;
    return n;
}

static bool is_other_log(const struct call_case *c, const char *seen)
{
    char *other = c->other ? expand(c->other) : NULL;
    bool is = other && strcmp(seen, other) == 0;

    free(other);
    return is;
}

static void compare_log(const struct call_case *c, const char *log)
{
    char *seen = digest(log ? log : "", c->how),
         *expected = c->log ? expand(c->log) : strdup("");

    if (c->how & COUNTED) {
        assert_non_null(log);
        if (count_published(log) != strtoul(expected, NULL, 10))
            print_error("log:\n%s", log);
        assert_int_equal(count_published(log), strtoul(expected, NULL, 10));
    } else if (expected[0] == '*') {
        if (!strstr(seen, &expected[1]))
            fail_msg("no \"%s\" in:\n%s", &expected[1], seen);
    } else if (!is_other_log(c, seen)) {
        assert_string_equal(seen, expected);
    }
    free(expected);
    free(seen);
}

static void test_case(void **state)
{
    const struct call_case *c = *state;
    char *log, *out;
    int status;
    pid_t pid;

    set_up();
    if (c->how & LINKS)
        publish_links();
#ifdef DYAD_SANITIZED
    if (c->how & (SYSTEM | NO_ASAN))
        skip(); /* their allocator would come before the sanitizer's runtime */
#endif
    serial++;
    pid = fork();
    if (pid == 0)
        run_child(c);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    log = read_all("log");
    out = read_all("stdout");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != c->rc)
        print_error("wait status %x; log:\n%s", (unsigned)status, log ? log : "(none)");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), c->rc);
    if (c->out)
        assert_string_equal(out, c->out);
    compare_log(c, log);
    free(log);
    free(out);
}

int main(void)
{
    size_t n = sizeof(cases) / sizeof(cases[0]);
    struct CMUnitTest tests[sizeof(cases) / sizeof(cases[0])];

    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = test_case,
                                       .teardown_func = tear_down,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
