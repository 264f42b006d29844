/*
 * dyad-run - start a program with the library preloaded
 *
 * Sets LD_PRELOAD and the DYAD_* variables and execs; nothing of it stays. Before that it
 * looks for what users get wrong, because afterwards most of these mistakes show as a
 * program that waits for files.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dyad/dyad.h"
#include "boot/identity.h"
#include "boot/launcher.h"
#include "config/config.h"
#include "run_check.h"
#include "run_files.h"
#include "run_say.h"
#include "run_serve.h"
#include "run_thread.h"
#include "run_unsafe.h"
#include "util/log.h"

#define WRAPPER "libdyad_wrapper.so"

/* Of bin to lib in the installed tree; CMake gives the one for this system's layout. */
#ifndef DYAD_RELATIVE_LIBDIR
#define DYAD_RELATIVE_LIBDIR "../lib"
#endif

/* An option that is a variable by another name. */
static const struct setting {
    const char *option, *variable, *argument, *help;
} settings[] = {
    {"dmd", "DYAD_PATH", "DIR", "the managed directory, for what is written and read"},
    {"producer", "DYAD_PATH_PRODUCER", "DIR", "the managed directory for what is written"},
    {"consumer", "DYAD_PATH_CONSUMER", "DIR", "the managed directory for what is read"},
    {"timeout", "DYAD_TIMEOUT", "S", "seconds to wait for a file; 0: no limit"},
    {"wait", "DYAD_WAIT", "X", "which files to wait for: auto, all, none, or patterns"},
    {"linger", "DYAD_LINGER", "X", "how long to serve at exit: job, or seconds"},
    {"node", "DYAD_NODE", "NAME", "name of this node, instead of the host name"},
    {"session-dir", "DYAD_SESSION_DIR", "DIR",
     "share files with other launches, see below"},
    {"session", "DYAD_KVS_NAMESPACE", "NAME", "name of the session"},
    {"depth", "DYAD_KEY_DEPTH", "N", "levels of a rank's tree of entries"},
    {"bins", "DYAD_KEY_BINS", "N", "bins at each level"},
    {"replicas", "DYAD_REPLICAS", "N", "ranks that keep each entry"},
    {"log", "DYAD_LOG", "LEVEL", "error, warn, info or debug"},
    {"log-file", "DYAD_LOG_FILE", "FILE", "append log lines to FILE"},
};

#define NSETTINGS (sizeof(settings) / sizeof(settings[0]))

enum {
    OPT_MKDIR = 256,
    OPT_NO_CHECK,
    OPT_CHECK,
    OPT_PRINT_ENV,
    OPT_PUBLISH,
    OPT_AWAIT,
    OPT_SERVE,
    OPT_WHILE,
    OPT_VARIABLES,
    OPT_VERSION,
    OPT_HELP
};

static const struct option flags[] = {
    {"mkdir", no_argument, NULL, OPT_MKDIR},
    {"no-check", no_argument, NULL, OPT_NO_CHECK},
    {"check", no_argument, NULL, OPT_CHECK},
    {"print-env", no_argument, NULL, OPT_PRINT_ENV},
    {"publish", no_argument, NULL, OPT_PUBLISH},
    {"await", no_argument, NULL, OPT_AWAIT},
    {"serve", no_argument, NULL, OPT_SERVE},
    {"while", required_argument, NULL, OPT_WHILE},
    {"help-variables", optional_argument, NULL, OPT_VARIABLES},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
};

#define NFLAGS (sizeof(flags) / sizeof(flags[0]))

static struct {
    const char *value[NSETTINGS]; /* as given on the command line */
    bool mkdir, no_check, check, print_env, publish, await, serve;
    pid_t while_pid; /* 0: none */
} run;

extern char **environ;

static void set_variable(const char *name, const char *value, int overwrite)
{
    if (setenv(name, value, overwrite) < 0)
        run_die(RUN_EXIT_FAILURE, "cannot set %s: %s", name, strerror(errno));
}

/* --- command line --- */

static void print_help(void)
{
    printf(
        "Usage: dyad-run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
        "       dyad-run [OPTION]... --publish|--await [--] FILE...\n"
        "       dyad-run [OPTION]... --serve [--while PID]\n"
        "       dyad-run [OPTION]... --check\n"
        "Run PROGRAM so that files below the managed directory are shared with the other\n"
        "processes of the job, as in: mpirun -n 4 dyad-run --dmd /tmp/ssd ./sim\n\n");
    for (size_t i = 0; i < NSETTINGS; i++) {
        char left[64];
        snprintf(left, sizeof(left), "--%s %s", settings[i].option, settings[i].argument);
        printf("  %-18s %s\n", left, settings[i].help);
    }
    printf(
        "  --mkdir            make the managed directory where it is missing\n"
        "  --no-check         run PROGRAM also if it cannot be preloaded\n"
        "  --check            run nothing: name what of this host lets other users or "
        "hosts\n"
        "                     in, and what to do; exit status 0: nothing, 1: something\n"
        "  --print-env        print the variables as shell commands and exit\n"
        "  --publish          run nothing: publish each FILE, for a program that cannot "
        "be\n"
        "                     preloaded and has written it\n"
        "  --await            run nothing: wait until each FILE is published, and fetch "
        "it,\n"
        "                     for such a program to read\n"
        "  --serve            run nothing: serve what ended processes of the session left "
        "on\n"
        "                     this node, until SIGTERM comes or the session directory "
        "goes;\n"
        "                     a line on standard output says that it has joined\n"
        "  --while PID        with --serve: or until that process has ended\n"
        "  --help-variables   describe all DYAD_* variables and exit\n"
        "  --version          print the version and exit\n"
        "  --help             print this and exit\n\n"
        "All processes, of whatever launch or none, with the same --session-dir share "
        "files. "
        "It is\n"
        "on a file system that all nodes see, belongs to you alone (0700), and is made "
        "where "
        "it\n"
        "is missing.\n\n"
        "An option goes before its variable, and --dmd before DYAD_PATH_PRODUCER and\n"
        "DYAD_PATH_CONSUMER. Exit status: that of PROGRAM; 125 if dyad-run failed, 126 if\n"
        "PROGRAM cannot be run, 127 if it was not found. See dyad-run(1) and dyad(7).\n");
}

static void help_variables(const char *form)
{
    bool troff = form && strcmp(form, "troff") == 0;

    if (form && !troff)
        run_die(RUN_EXIT_FAILURE, "--help-variables=%s: the only other form is troff",
                form);
    engine_config_help(stdout, troff);
}

/* Everything that was printed has reached its destination, or it is an error. */
static void exit_printed(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        run_die(RUN_EXIT_FAILURE, "cannot write: %s", strerror(errno));
    exit(status);
}

static bool is_directory_option(const struct setting *setting)
{
    return strncmp(setting->variable, "DYAD_PATH", 9) == 0;
}

static bool is_path_option(const struct setting *setting)
{
    return is_directory_option(setting) ||
           strcmp(setting->variable, "DYAD_SESSION_DIR") == 0 ||
           strcmp(setting->variable, "DYAD_LOG_FILE") == 0;
}

/* Check the value alone, so that the message can name the option. */
static void take_setting(size_t i, const char *value)
{
    const struct setting *setting = &settings[i];
    struct engine_config config;
    char err[1024], cwd[PATH_MAX];

    if (!*value)
        run_die(RUN_EXIT_FAILURE, "--%s: its value is empty: was a variable not set?",
                setting->option);
    if (is_path_option(setting) && value[0] != '/' && getcwd(cwd, sizeof(cwd)))
        run_die(RUN_EXIT_FAILURE,
                "--%s %s: a relative path; write %s/%s if you mean that one",
                setting->option, value, cwd, value);
    if (engine_config_read(&config, NULL, err, sizeof(err)) < 0 ||
        engine_config_set(&config, setting->variable, value, err, sizeof(err)) < 0)
        run_die(RUN_EXIT_FAILURE, "--%s: %s", setting->option, err);
    run.value[i] = value;
}

static pid_t parse_pid(const char *text)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < 1 || value > INT_MAX)
        run_die(RUN_EXIT_FAILURE, "--while %s: not the number of a process", text);
    return (pid_t)value;
}

static void parse(int argc, char *argv[])
{
    struct option options[NSETTINGS + NFLAGS + 1];
    int c;

    memset(options, 0, sizeof(options));
    for (size_t i = 0; i < NSETTINGS; i++)
        options[i] = (struct option){settings[i].option, required_argument, NULL, (int)i};
    memcpy(options + NSETTINGS, flags, sizeof(flags));

    /* '+': the options of PROGRAM are its own. What --check says of a mistake: first. */
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1)
        run.check |= c == OPT_CHECK;
    opterr = 1;
    optind = 0;
    if (run.check)
        run_fail_with(RUN_UNSAFE_USAGE);
    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        if (c >= 0 && c < (int)NSETTINGS) {
            take_setting((size_t)c, optarg);
            continue;
        }
        switch (c) {
        case OPT_MKDIR:
            run.mkdir = true;
            break;
        case OPT_NO_CHECK:
            run.no_check = true;
            break;
        case OPT_CHECK:
            break; /* seen before */
        case OPT_PRINT_ENV:
            run.print_env = true;
            break;
        case OPT_PUBLISH:
            run.publish = true;
            break;
        case OPT_AWAIT:
            run.await = true;
            break;
        case OPT_SERVE:
            run.serve = true;
            break;
        case OPT_WHILE:
            run.while_pid = parse_pid(optarg);
            break;
        case OPT_VARIABLES:
            help_variables(optarg);
            exit_printed(0);
            break;
        case OPT_VERSION:
            printf("dyad-run %d.%d.%d\n", DYAD_VERSION_MAJOR, DYAD_VERSION_MINOR,
                   DYAD_VERSION_PATCH);
            exit_printed(0);
            break;
        case 'h':
        case OPT_HELP:
            print_help();
            exit_printed(0);
            break;
        default:
            fprintf(stderr, "Try 'dyad-run --help'.\n");
            exit(run.check ? RUN_UNSAFE_USAGE : RUN_EXIT_FAILURE);
        }
    }
}

/* --- environment --- */

/* The library, beside this program or where it was installed or built relative to it: the
 * tree can be moved. */
static void find_wrapper(char *path)
{
    static const char *const places[] = {
        ".",      DYAD_RELATIVE_LIBDIR, "../lib", "../lib64", "../src/wrapper",
        "../src", "../src/engine"};
    char self[PATH_MAX], candidate[PATH_MAX + 64];

    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        run_die(RUN_EXIT_FAILURE,
                "cannot find out where this program is (/proc/self/exe): %s",
                strerror(errno));
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(candidate, sizeof(candidate), "%s/%s/" WRAPPER, self, places[i]);
        if (!realpath(candidate, path))
            continue;
        if (path[strcspn(path, ": \t\n")])
            run_die(RUN_EXIT_FAILURE,
                    "%s has a blank or a colon in its name, which LD_PRELOAD cannot carry: "
                    "install it in another place",
                    path);
        return;
    }
    run_die(RUN_EXIT_FAILURE,
            WRAPPER " is neither in %s nor in %s/" DYAD_RELATIVE_LIBDIR
                    ": is the installation complete?",
            self, self);
}

/* The wrapper goes first, and no other copy of it stays. */
static void set_preload(const char *wrapper)
{
    const char *old = getenv("LD_PRELOAD");
    size_t size = strlen(wrapper) + (old ? strlen(old) : 0) + 2;
    char *value = malloc(size);

    if (!value)
        run_die(RUN_EXIT_FAILURE, "out of memory");
    strcpy(value, wrapper);
    for (const char *p = old; p && *p;) {
        size_t len = strcspn(p, ": ");
        const char *base = p + len;
        while (base > p && base[-1] != '/')
            base--;
        size_t base_len = (size_t)(p + len - base);
        if (len && !(base_len == strlen(WRAPPER) && memcmp(base, WRAPPER, base_len) == 0)) {
            strcat(value, ":");
            strncat(value, p, len);
        }
        p += len;
        p += strspn(p, ": ");
    }
    set_variable("LD_PRELOAD", value, 1);
    free(value);
}

static const char *setting_value(const char *option)
{
    for (size_t i = 0; i < NSETTINGS; i++)
        if (strcmp(settings[i].option, option) == 0)
            return run.value[i];
    return NULL;
}

static bool change_variable(const char *name, const char *value)
{
    const char *old = getenv(name);

    if (value ? old && strcmp(old, value) == 0 : !old)
        return false;
    if (value)
        set_variable(name, value, 1);
    else
        unsetenv(name);
    return true;
}

/* What was asked for here goes before what an earlier shell left behind. False: it is what
 * that has left. */
static bool set_settings(void)
{
    bool changed = false;

    if (setting_value("dmd") && !setting_value("producer"))
        changed |= change_variable("DYAD_PATH_PRODUCER", NULL);
    if (setting_value("dmd") && !setting_value("consumer"))
        changed |= change_variable("DYAD_PATH_CONSUMER", NULL);
    for (size_t i = 0; i < NSETTINGS; i++)
        if (run.value[i])
            changed |= change_variable(settings[i].variable, run.value[i]);
    return changed;
}

static void set_environment(const char *wrapper)
{
    set_settings();
    /* Started by a launcher, but as no rank that it knows of: with this command it is one.
     */
    const char *guest_of = getenv(BOOT_GUEST_OF);
    if (guest_of && strncmp(guest_of, BOOT_GUEST_OF_NOBODY, 1) == 0 &&
        !getenv("PMIX_NAMESPACE"))
        unsetenv(BOOT_GUEST_OF);
    /* PMIx 4's default store loses keys in a race, and a rank's second process in it; hash
     * does not. */
    set_variable("PMIX_MCA_gds", "hash", 0);
    set_preload(wrapper);
}

static void print_variable(const char *name)
{
    const char *value = getenv(name);

    if (!value) {
        printf("unset %s\n", name);
        return;
    }
    printf("export %s='", name);
    for (; *value; value++) {
        if (*value == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*value);
    }
    puts("'");
}

static void print_environment(void)
{
    for (size_t i = 0; i < NSETTINGS; i++)
        if (run.value[i] || (setting_value("dmd") && is_directory_option(&settings[i])))
            print_variable(settings[i].variable);
    print_variable("PMIX_MCA_gds");
    print_variable("LD_PRELOAD");
}

/* --- checks --- */

static void check_variables(struct engine_config *config)
{
    const char *rank = getenv("PMIX_RANK"), *nearest;
    char err[1024], name[64];
    size_t pos = 0;

    if (engine_config_read(config, environ, err, sizeof(err)) < 0)
        run_die(RUN_EXIT_FAILURE, "%s", err);
    run_be_quiet(config->log_level < UTIL_LOG_WARN);
    /* once in a job, not once in each rank */
    if (rank && strcmp(rank, "0") != 0)
        return;
    while (engine_config_unknown(environ, &pos, name, sizeof(name), &nearest)) {
        if (nearest)
            run_warn("%s is no variable of dyad; did you mean %s?", name, nearest);
        else if (config->log_level >= UTIL_LOG_INFO) /* it is like none: not meant for us */
            run_warn("%s is no variable of dyad (see dyad-run --help-variables)", name);
    }
}

static void complain(const char *err)
{
    if (run.print_env)
        run_warn("%s", err); /* the job may run on other nodes than this one */
    else
        run_die(RUN_EXIT_FAILURE, "%s", err);
}

static void check_directories(const struct engine_config *config)
{
    char err[2 * PATH_MAX + 512];
    struct run_place places[2];
    unsigned n = run_check_managed(config, places);

    if (!n)
        run_die(
            RUN_EXIT_FAILURE,
            "no managed directory: give --dmd DIR, or set DYAD_PATH, to say which files "
            "are "
            "to be shared");
    for (unsigned i = 0; i < n; i++)
        if (run_check_directory(places[i].name, places[i].path, run.mkdir, err,
                                sizeof(err)) != 0)
            complain(err);
    if (config->session_dir &&
        run_check_session_dir("DYAD_SESSION_DIR", config->session_dir, err, sizeof(err)) !=
            0)
        complain(err);
    if (config->log_file &&
        run_check_file("DYAD_LOG_FILE", config->log_file, err, sizeof(err)) != 0)
        run_die(RUN_EXIT_FAILURE, "%s", err);
}

static void check_launcher(const struct engine_config *config, const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *base = slash ? slash + 1 : program;

    if (boot_launcher_named(program) != BOOT_LAUNCHER_NONE) {
        run_warn(
            "%s is a launcher: dyad-run belongs behind it, as in: %s -n 4 dyad-run "
            "... ./sim",
            base, base);
        return;
    }
    if (!getenv("PMIX_NAMESPACE") && !getenv(BOOT_GUEST_OF) && !config->session_dir &&
        !getenv(BOOT_SAID_ALONE)) {
        set_variable(BOOT_SAID_ALONE, "1", 1);
        run_warn(
            "no launcher: PMIX_NAMESPACE is not set, so this process shares files with no "
            "other; start it with mpirun, or with srun --mpi=pmix, or give --session-dir");
    }
}

/* Where it is comes back in path. */
static void check_program(const char *program, const char *wrapper, char path[PATH_MAX])
{
    char err[PATH_MAX + 1024];
    const char *path_env = getenv("PATH");

    int status = run_check_find(program, path_env, path, PATH_MAX, err, sizeof(err));
    if (status)
        run_die(status, "%s", err);
    status = run_check_preload(path, wrapper, path_env, err, sizeof(err));
    if (status && !run.no_check)
        run_die(status, "%s. (--no-check runs it all the same.)", err);
    if (status)
        run_warn("%s", err);
}

static void check_mode(int nargs)
{
    if (run.publish + run.await + run.serve + run.check > 1 || (run.check && run.print_env))
        run_die(RUN_EXIT_FAILURE, "--publish, --await, --serve and --check: one at a time");
    if (run.check && nargs > 0)
        run_die(RUN_EXIT_FAILURE, "--check runs no program");
    if (run.while_pid && !run.serve)
        run_die(RUN_EXIT_FAILURE, "--while is for --serve");
    if (run.serve && nargs > 0)
        run_die(RUN_EXIT_FAILURE,
                "--serve runs no program: start it beside the steps, as in: dyad-run ... "
                "--serve --while $$ &");
    if (nargs == 0 && !run.print_env && !run.serve && !run.check)
        run_die(RUN_EXIT_FAILURE, "no %s given. Try 'dyad-run --help'",
                run.publish || run.await ? "file" : "program");
}

/* The shell is the rank's first process, and the program one of its later ones. */
static void execute_from_shell(char *path, char *argv[], int argc)
{
    char **args = calloc((size_t)argc + 4, sizeof(*args));

    if (!args)
        run_die(RUN_EXIT_FAILURE, "out of memory");
    args[0] = (char *)"sh";
    args[1] = (char *)"-c";
    args[2] = (char *)"\"$0\" \"$@\"; exit $?";
    memcpy(args + 3, argv, (size_t)argc * sizeof(*args));
    args[3] = path; /* not the name, which may be that of a shell's own command */
    execv("/bin/sh", args);
    run_die(RUN_EXIT_CANNOT_EXEC, "/bin/sh: %s", strerror(errno));
}

int main(int argc, char *argv[])
{
    struct engine_config config;
    char wrapper[PATH_MAX], path[PATH_MAX];

    parse(argc, argv);
    check_mode(argc - optind);
    if (run.check) {
        set_settings();
        check_variables(&config);
        exit_printed(run_unsafe(&config, stdout) ? RUN_UNSAFE_FOUND : 0);
    }
    if (run.serve && !run.print_env)
        run_serve_alone(argv, set_settings());
    find_wrapper(wrapper);
    set_environment(wrapper);
    check_variables(&config);
    check_directories(&config);
    if (run.print_env) {
        print_environment();
        exit_printed(0);
    }
    if (run.serve && !config.session_dir)
        run_die(RUN_EXIT_FAILURE,
                "--serve: no session directory: give --session-dir DIR, or set "
                "DYAD_SESSION_DIR");
    if (run.serve)
        return run_serve(wrapper, config.session_dir, run.while_pid);
    if (run.publish || run.await)
        return run_files(wrapper, run.publish, argv + optind);
    check_launcher(&config, argv[optind]);
    check_program(argv[optind], wrapper, path);

    if (run_thread_sanitized(path))
        execute_from_shell(path, argv + optind, argc - optind);
    execvp(argv[optind], argv + optind);
    int error = errno;
    run_die(error == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT_EXEC, "%s: %s",
            argv[optind], strerror(error));
}
