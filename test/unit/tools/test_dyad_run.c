/*
 * test_dyad_run.c - dyad-run in an installed tree of its own, with a wrapper that does
 * nothing
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "spawn.h"

static char tree[64], dmd[128], program[128], wrapper[128];
static struct spawn_result result;

#define LAUNCHED "PMIX_NAMESPACE=job", "PMIX_RANK=0"

/* Where dyad-run itself is instrumented, it may start behind libraries that were preloaded.
 */
#define NO_ORDER "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"

/* dyad-run ARGUMENTS, in an environment of PATH and what ENV names. */
#define ENV(...)  ((char *const[]){"PATH=/usr/bin:/bin", NO_ORDER, ##__VA_ARGS__, NULL})
#define ARGS(...) ((char *const[]){program, ##__VA_ARGS__, NULL})

static void run(char *const args[], char *const env[])
{
    spawn_run(&result, args, env);
}

static void expect(int status, const char *out, const char *err)
{
    if (result.status != status || (out && !strstr(result.out, out)) ||
        (err && !strstr(result.err, err)))
        fail_msg(
            "status %d (expected %d), expected out \"%s\", err \"%s\"\nout: %s\nerr: %s",
            result.status, status, out ? out : "", err ? err : "", result.out, result.err);
}

static void copy(const char *from, const char *to)
{
    char command[PATH_MAX * 2];

    snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static char *path_in_tree(const char *name)
{
    static char path[16][256];
    static unsigned next;
    char *p = path[next++ % 16];

    snprintf(p, sizeof(path[0]), "%s/%s", tree, name);
    return p;
}

static char *make_file(const char *name, const void *data, size_t len, mode_t mode)
{
    char *path = path_in_tree(name);
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, len, out), len);
    fclose(out);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(tree, sizeof(tree), "/tmp/test-dyad-run.XXXXXX");
    if (!mkdtemp(tree) || chmod(tree, 0755) < 0)
        return -1;
    snprintf(dmd, sizeof(dmd), "%s/dmd", tree);
    snprintf(program, sizeof(program), "%s/bin/dyad-run", tree);
    snprintf(wrapper, sizeof(wrapper), "%s/lib/libdyad_wrapper.so", tree);
    mkdir(dmd, 0755);
    mkdir(path_in_tree("bin"), 0755);
    mkdir(path_in_tree("lib"), 0755);
    copy(DYAD_RUN, program);
    copy(FAKE_WRAPPER, wrapper);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", tree);
    return system(command);
}

static void test_environment(void **state)
{
    (void)state;
    char line[256];

    run(ARGS("--dmd", dmd, "--timeout", "2.5", "--", "env"), ENV(LAUNCHED));
    snprintf(line, sizeof(line), "DYAD_PATH=%s\n", dmd);
    expect(0, line, NULL);
    snprintf(line, sizeof(line), "LD_PRELOAD=%s\n", wrapper);
    expect(0, line, NULL);
    expect(0, "DYAD_TIMEOUT=2.5\n", NULL);
    expect(0, "PMIX_MCA_gds=hash\n", NULL);
    assert_string_equal(result.err, "");

    /* what the user chose stays; the options of the program are its own */
    run(ARGS("--dmd", dmd, "sh", "-c", "echo $PMIX_MCA_gds", "--log", "x"),
        ENV(LAUNCHED, "PMIX_MCA_gds=ds12"));
    expect(0, "ds12\n", NULL);

    /* --dmd goes before what was inherited, and the other options before that */
    run(ARGS("--dmd", dmd, "sh", "-c", "echo $DYAD_PATH,$DYAD_PATH_CONSUMER,"),
        ENV(LAUNCHED, "DYAD_PATH=/nowhere", "DYAD_PATH_CONSUMER=/nowhere"));
    snprintf(line, sizeof(line), "%s,,\n", dmd);
    expect(0, line, NULL);
    run(ARGS("--consumer", dmd, "--producer", tree, "sh", "-c",
             "echo $DYAD_PATH_PRODUCER,$DYAD_PATH_CONSUMER"),
        ENV(LAUNCHED));
    snprintf(line, sizeof(line), "%s,%s\n", tree, dmd);
    expect(0, line, NULL);

    run(ARGS("--dmd", dmd, "--log", "debug", "--log-file", path_in_tree("log"), "--wait",
             "none", "--linger", "3", "--node", "n0", "--session", "s", "--depth", "3",
             "--bins", "16", "--replicas", "1", "env"),
        ENV(LAUNCHED));
    expect(0, "DYAD_LOG=debug\n", NULL);
    expect(0, "DYAD_WAIT=none\n", NULL);
    expect(0, "DYAD_LINGER=3\n", NULL);
    expect(0, "DYAD_NODE=n0\n", NULL);
    expect(0, "DYAD_KVS_NAMESPACE=s\n", NULL);
    expect(0, "DYAD_KEY_DEPTH=3\n", NULL);
    expect(0, "DYAD_KEY_BINS=16\n", NULL);
    expect(0, "DYAD_REPLICAS=1\n", NULL);

    /* the program's own exit status */
    run(ARGS("--dmd", dmd, "sh", "-c", "exit 7"), ENV(LAUNCHED));
    expect(7, NULL, NULL);
}

static void test_preload(void **state)
{
    (void)state;
    char old[600], line[600];

    /* prepended to what was there; never twice, also not another copy */
    snprintf(old, sizeof(old),
             "LD_PRELOAD=libm.so.6 %s:/other/libdyad_wrapper.so:libdl.so.2", wrapper);
    run(ARGS("--dmd", dmd, "--print-env"), ENV(LAUNCHED, old));
    snprintf(line, sizeof(line), "export LD_PRELOAD='%s:libm.so.6:libdl.so.2'\n", wrapper);
    expect(0, line, NULL);

    /* found relative to where it is now */
    run(ARGS("--dmd", dmd, "sh", "-c", "grep -c libdyad_wrapper.so /proc/$$/maps"),
        ENV(LAUNCHED));
    expect(0, NULL, NULL);
    assert_int_not_equal(atoi(result.out), 0);

    char *bare = path_in_tree("dyad-run-alone");
    copy(program, bare);
    run((char *const[]){bare, "--dmd", dmd, "true", NULL}, ENV(LAUNCHED));
    expect(125, NULL, "libdyad_wrapper.so is neither in");
    /* in the same directory */
    char *beside = path_in_tree("libdyad_wrapper.so");
    copy(wrapper, beside);
    run((char *const[]){bare, "--dmd", dmd, "true", NULL}, ENV(LAUNCHED));
    expect(0, NULL, NULL);
    unlink(beside);

    mkdir(path_in_tree("a b"), 0755);
    char *blank = path_in_tree("a b/dyad-run");
    copy(program, blank);
    copy(wrapper, path_in_tree("a b/libdyad_wrapper.so"));
    run((char *const[]){blank, "--dmd", dmd, "true", NULL}, ENV(LAUNCHED));
    expect(125, NULL, "LD_PRELOAD cannot carry");
}

static void test_directories(void **state)
{
    (void)state;
    char *missing = path_in_tree("not/there"), *file = make_file("file", "x", 1, 0644);
    struct stat st;

    run(ARGS("--dmd", missing, "true"), ENV(LAUNCHED));
    expect(125, NULL, "no such directory");
    expect(125, NULL, "mkdir -p");
    assert_int_equal(stat(missing, &st), -1);
    run(ARGS("--mkdir", "--dmd", missing, "true"), ENV(LAUNCHED));
    expect(0, NULL, NULL);
    assert_int_equal(stat(missing, &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0700);

    run(ARGS("--dmd", file, "true"), ENV(LAUNCHED));
    expect(125, NULL, "not a directory");
    run(ARGS("--dmd", "ssd", "true"), ENV(LAUNCHED));
    expect(125, NULL, "a relative path; write /");
    run(ARGS("--dmd", "", "true"), ENV(LAUNCHED));
    expect(125, NULL, "its value is empty");
    run(ARGS("true"), ENV(LAUNCHED, "DYAD_PATH=ssd"));
    expect(125, NULL, "DYAD_PATH=ssd: not an absolute path");
    run(ARGS("true"), ENV(LAUNCHED, "DYAD_PATH_CONSUMER=/no/such"));
    expect(125, NULL, "DYAD_PATH_CONSUMER=/no/such: no such directory");
    run(ARGS("true"), ENV(LAUNCHED));
    expect(125, NULL, "no managed directory: give --dmd");
    run(ARGS("--dmd", dmd, "--log-file", "/no/such/log", "true"), ENV(LAUNCHED));
    expect(125, NULL, "DYAD_LOG_FILE=/no/such/log: cannot be written");

    /* as root everything is writable: be somebody else */
    char *locked = path_in_tree("locked");
    mkdir(locked, 0555);
    if (geteuid() == 0)
        run((char *const[]){"/usr/bin/setpriv", "--reuid=12345", "--clear-groups", program,
                            "--dmd", locked, "true", NULL},
            ENV(LAUNCHED));
    else
        run(ARGS("--dmd", locked, "true"), ENV(LAUNCHED));
    expect(125, NULL, "not writable");
}

static void test_values(void **state)
{
    (void)state;

    run(ARGS("--dmd", dmd, "--timeout", "soon", "true"), ENV(LAUNCHED));
    expect(125, NULL, "--timeout: DYAD_TIMEOUT=soon: not a number of seconds; allowed: ");
    run(ARGS("--dmd", dmd, "true"), ENV(LAUNCHED, "DYAD_KEY_BINS=1"));
    expect(125, NULL, "DYAD_KEY_BINS=1: out of range; allowed: a whole number from 2");
    run(ARGS("--dmd", dmd, "true"), ENV(LAUNCHED, "DYAD_TIMOUT=1"));
    expect(0, NULL,
           "warning: DYAD_TIMOUT is no variable of dyad; did you mean DYAD_TIMEOUT?");
    run(ARGS("--dmd", dmd, "--log", "error", "true"), ENV(LAUNCHED, "DYAD_TIMOUT=1"));
    expect(0, NULL, NULL);
    assert_string_equal(result.err, "");
    /* what is like none of ours may be meant for somebody else */
    run(ARGS("--dmd", dmd, "true"), ENV(LAUNCHED, "DYAD_ZZZZZZ=1"));
    assert_string_equal(result.err, "");
    run(ARGS("--dmd", dmd, "--log", "info", "true"), ENV(LAUNCHED, "DYAD_ZZZZZZ=1"));
    expect(0, NULL, "warning: DYAD_ZZZZZZ is no variable of dyad");
    /* one rank says it */
    run(ARGS("--dmd", dmd, "true"),
        ENV("PMIX_NAMESPACE=j", "PMIX_RANK=3", "DYAD_TIMOUT=1"));
    expect(0, NULL, NULL);
    assert_string_equal(result.err, "");

    run(ARGS("--dmd", dmd), ENV(LAUNCHED));
    expect(125, NULL, "no program given");
    run(ARGS("--dmdd", dmd), ENV(LAUNCHED));
    expect(125, NULL, "dmdd");
}

static void test_launcher(void **state)
{
    (void)state;

    run(ARGS("--dmd", dmd, "true"), ENV());
    expect(0, NULL, "warning: no launcher");
    /* a guest whose environment lost the launcher's variables */
    run(ARGS("--dmd", dmd, "true"), ENV("DYAD_GUEST_OF=0@job"));
    expect(0, NULL, NULL);
    assert_string_equal(result.err, "");
    /* Made by the first process if it is missing; what is there must be ours alone. */
    char yet[PATH_MAX + 32];
    snprintf(yet, sizeof(yet), "DYAD_SESSION_DIR=%s/yet", dmd);
    run(ARGS("--dmd", dmd, "true"), ENV(yet));
    expect(0, NULL, NULL);
    assert_string_equal(result.err, "");
    /* but not a directory that holds it */
    run(ARGS("--dmd", dmd, "true"), ENV("DYAD_SESSION_DIR=/no/such/yet"));
    expect(125, NULL, "DYAD_SESSION_DIR=/no/such/yet: /no/such is not there on ");
    expect(125, NULL, "make it (mkdir -p /no/such)");
    run(ARGS("--dmd", dmd, "--session-dir", "/dev/null/yet", "true"), ENV());
    expect(125, NULL, "DYAD_SESSION_DIR=/dev/null/yet: ");
    if (geteuid() != 0) {
        run(ARGS("--dmd", dmd, "--session-dir", "/proc/yet", "true"), ENV());
        expect(125, NULL, "DYAD_SESSION_DIR=/proc/yet: cannot be made on ");
    }
    run(ARGS("--dmd", dmd, "--session-dir", "/no/such/yet", "--print-env"), ENV());
    expect(0, "DYAD_SESSION_DIR", "warning: DYAD_SESSION_DIR=/no/such/yet: ");
    run(ARGS("--dmd", dmd, "true"), ENV("DYAD_SESSION_DIR=/tmp"));
    expect(125, NULL, "DYAD_SESSION_DIR=/tmp: must be yours and closed to others");
    run(ARGS("--dmd", dmd, "--session-dir", "here", "true"), ENV());
    expect(125, NULL, "--session-dir here: a relative path");

    char *srun = make_file("srun", "#!/bin/sh\nexit 0\n", 17, 0755);
    run(ARGS("--dmd", dmd, srun, "-n", "2", "./sim"), ENV());
    expect(0, NULL, "srun is a launcher: dyad-run belongs behind it");
}

static void test_programs(void **state)
{
    (void)state;

    run(ARGS("--dmd", dmd, "no-such-program-anywhere"), ENV(LAUNCHED));
    expect(127, NULL, "not found in PATH");
    run(ARGS("--dmd", dmd, "./no-such-program"), ENV(LAUNCHED));
    expect(127, NULL, "no such file");
    run(ARGS("--dmd", dmd, ""), ENV(LAUNCHED));
    expect(127, NULL, "empty");
    run(ARGS("--dmd", dmd, dmd), ENV(LAUNCHED));
    expect(126, NULL, "is a directory");
    run(ARGS("--dmd", dmd, make_file("plain", "#!/bin/sh\n", 10, 0644)), ENV(LAUNCHED));
    expect(126, NULL, "chmod +x");
    run(ARGS("--dmd", dmd, make_file("script", "#!/bin/sh\necho hello\n", 21, 0755)),
        ENV(LAUNCHED));
    expect(0, "hello\n", NULL);
    run(ARGS("--dmd", dmd,
             make_file("script", "#!/usr/bin/env sh\necho hello\n", 29, 0755)),
        ENV(LAUNCHED));
    expect(0, "hello\n", NULL);
    run(ARGS("--dmd", dmd, make_file("script", "#!/no/such/shell -e\n", 20, 0755)),
        ENV(LAUNCHED));
    expect(127, NULL, "a script of /no/such/shell, which does not exist");
    run(ARGS("--dmd", dmd, make_file("script", "#!/bin/sh\r\necho\r\n", 17, 0755)),
        ENV(LAUNCHED));
    expect(127, NULL, "CR LF");
    /* no "#!" at all: the shell runs it, as for execvp() */
    run(ARGS("--dmd", dmd, make_file("script", "echo hello\n", 11, 0755)), ENV(LAUNCHED));
    expect(0, "hello\n", NULL);

    char path[200];
    snprintf(path, sizeof(path), "PATH=%s:/usr/bin:/bin", tree);
    make_file("script", "#!/bin/sh\necho from-path\n", 25, 0755);
    run(ARGS("--dmd", dmd, "script"), (char *const[]){path, "PMIX_NAMESPACE=j", NULL});
    expect(0, "from-path\n", NULL);
}

/* What a static program does here: _exit(7). */
static const unsigned char exit_7[] = {
#if defined(__x86_64__)
    0xb8, 0x3c, 0x00, 0x00, 0x00, /* mov $60, %eax */
    0xbf, 0x07, 0x00, 0x00, 0x00, /* mov $7, %edi */
    0x0f, 0x05,                   /* syscall */
#elif defined(__aarch64__)
    0xe0, 0x00, 0x80, 0xd2, /* mov x0, #7 */
    0xa8, 0x0b, 0x80, 0xd2, /* mov x8, #93 */
    0x01, 0x00, 0x00, 0xd4, /* svc #0 */
#else
    0, /* it crashes */
#endif
};
#define STATIC_AT 0x400000

/* An executable of little more than its headers. */
static char *make_elf(const char *name, const char *interpreter, bool other_class,
                      unsigned machine)
{
    struct {
        ElfW(Ehdr) header;
        ElfW(Phdr) phdr[2];
        char interpreter[64];
        unsigned char code[sizeof(exit_7)];
    } elf;
    char self[sizeof(ElfW(Ehdr))];

    memset(&elf, 0, sizeof(elf));
    int fd = open(wrapper, O_RDONLY);
    assert_int_equal(read(fd, self, sizeof(self)), sizeof(self));
    close(fd);
    memcpy(&elf.header, self, sizeof(elf.header));
    elf.header.e_type = ET_EXEC;
    elf.header.e_phoff = offsetof(typeof(elf), phdr);
    elf.header.e_phentsize = sizeof(ElfW(Phdr));
    elf.header.e_phnum = interpreter ? 2 : 1;
    if (other_class)
        elf.header.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
    if (machine)
        elf.header.e_machine = (ElfW(Half))machine;
    elf.header.e_entry = STATIC_AT + offsetof(typeof(elf), code);
    memcpy(elf.code, exit_7, sizeof(exit_7));
    elf.phdr[0].p_type = PT_LOAD;
    elf.phdr[0].p_flags = PF_R | PF_X;
    elf.phdr[0].p_vaddr = elf.phdr[0].p_paddr = STATIC_AT;
    elf.phdr[0].p_filesz = elf.phdr[0].p_memsz = sizeof(elf);
    elf.phdr[0].p_align = 0x10000;
    elf.phdr[1].p_type = PT_INTERP;
    elf.phdr[1].p_offset = offsetof(typeof(elf), interpreter);
    if (interpreter) {
        elf.phdr[1].p_filesz = strlen(interpreter) + 1;
        strcpy(elf.interpreter, interpreter);
    }
    return make_file(name, &elf, sizeof(elf), 0755);
}

static void test_not_preloadable(void **state)
{
    (void)state;
    char line[300];

    char *fixed = make_elf("static", NULL, false, 0);
    run(ARGS("--dmd", dmd, fixed), ENV(LAUNCHED));
    expect(126, NULL, "static is linked statically");
    expect(126, NULL, "--no-check runs it all the same");
    run(ARGS("--dmd", dmd, make_elf("class", "/lib/ld.so", true, 0)), ENV(LAUNCHED));
    expect(126, NULL, "it would be ignored");
    run(ARGS("--dmd", dmd, make_elf("machine", "/lib/ld.so", false, 0xf00)), ENV(LAUNCHED));
    expect(126, NULL, "machine type 3840");
    run(ARGS("--dmd", dmd, make_elf("musl", "/lib/ld-musl-x86_64.so.1", false, 0)),
        ENV(LAUNCHED));
    expect(126, NULL, "another C library");

    /* a script of a static interpreter, directly and through env */
    snprintf(line, sizeof(line), "#!%s -x\n", fixed);
    run(ARGS("--dmd", dmd, make_file("script", line, strlen(line), 0755)), ENV(LAUNCHED));
    expect(126, NULL, "is a script; ");
    expect(126, NULL, "static is linked statically");
    snprintf(line, sizeof(line), "#!/usr/bin/env -S A=b %s -x\n", fixed);
    run(ARGS("--dmd", dmd, make_file("script", line, strlen(line), 0755)), ENV(LAUNCHED));
    expect(126, NULL, "static is linked statically");

    /* a script that is its own interpreter must not go on for ever */
    snprintf(line, sizeof(line), "#!%s\n", path_in_tree("loop"));
    run(ARGS("--dmd", dmd, make_file("loop", line, strlen(line), 0755)), ENV(LAUNCHED));
    expect(126, NULL, "loop");

    run(ARGS("--dmd", dmd, "--no-check", fixed), ENV(LAUNCHED));
    if (sizeof(exit_7) > 1)
        assert_int_equal(result.status, 7);
    expect(result.status, NULL, "warning: ");
    expect(result.status, NULL, "linked statically");
    assert_int_not_equal(result.status, 125);
}

static void test_setuid(void **state)
{
    (void)state;
    struct statvfs fs;

    if (geteuid() != 0 || statvfs(tree, &fs) < 0 || (fs.f_flag & ST_NOSUID))
        skip(); /* giving a file away needs root, and a file system that knows setuid */
    char *other = path_in_tree("setuid");
    copy("/bin/true", other);
    assert_int_equal(chown(other, 12345, 12345), 0);
    assert_int_equal(chmod(other, 04755), 0);
    run(ARGS("--dmd", dmd, other), ENV(LAUNCHED));
    expect(126, NULL, "is setuid: the loader ignores LD_PRELOAD");
    assert_int_equal(chmod(other, 02755), 0);
    run(ARGS("--dmd", dmd, other), ENV(LAUNCHED));
    expect(126, NULL, "is setgid: the loader ignores LD_PRELOAD");
    assert_int_equal(chown(other, 0, 0), 0);
    assert_int_equal(chmod(other, 06755), 0);
    run(ARGS("--dmd", dmd, other), ENV(LAUNCHED));
    expect(0, NULL, NULL); /* our own: no privilege is gained */
}

static void test_print_env(void **state)
{
    (void)state;
    char line[300];

    run(ARGS("--dmd", dmd, "--node", "it's n0", "--print-env"),
        ENV("DYAD_PATH_PRODUCER=/x"));
    snprintf(line, sizeof(line), "export DYAD_PATH='%s'\n", dmd);
    expect(0, line, NULL);
    expect(0, "unset DYAD_PATH_PRODUCER\n", NULL);
    expect(0, "export DYAD_NODE='it'\\''s n0'\n", NULL);
    expect(0, "export PMIX_MCA_gds='hash'\n", NULL);

    /* a shell understands it */
    char *out = make_file("env.sh", result.out, strlen(result.out), 0644);
    struct spawn_result sourced;
    snprintf(line, sizeof(line), ". %s; echo \"$DYAD_NODE,$DYAD_PATH_PRODUCER.\"", out);
    spawn_run(&sourced, (char *const[]){"/bin/sh", "-c", line, NULL}, ENV());
    assert_string_equal(sourced.out, "it's n0,.\n");

    /* the nodes of the job may have what this one has not */
    run(ARGS("--dmd", "/no/such", "--print-env"), ENV());
    expect(0, "export DYAD_PATH='/no/such'\n", "no such directory");
}

static void test_help(void **state)
{
    (void)state;

    run(ARGS("--help"), ENV());
    expect(0, "Usage: dyad-run", NULL);
    run(ARGS("--version"), ENV());
    expect(0, "dyad-run 0.1.0\n", NULL);
    run(ARGS("--help-variables"), ENV());
    expect(0, "DYAD_KEY_BINS\n", NULL);
    run(ARGS("--help-variables=troff"), ENV());
    expect(0, ".B DYAD_KEY_BINS\n", NULL);
    run(ARGS("--help-variables=html"), ENV());
    expect(125, NULL, "troff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),     cmocka_unit_test(test_preload),
        cmocka_unit_test(test_directories),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_launcher),        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_not_preloadable), cmocka_unit_test(test_setuid),
        cmocka_unit_test(test_print_env),       cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests_name("tools/dyad-run", tests, set_up, tear_down);
}
