/* test_fdtable.c - two descriptor tables in one process; includes fdtable.c to take the old
 * kernels' way, too */
#include "../../../src/boot/fdtable.c"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

static sem_t begin, done;
static int pipe_fd[2], kept_fd, rc, where;
static void (*job)(void);
static bool quit;

/* The engine's first thread. */
static void *engine(void *arg)
{
    bool copy = arg != NULL;

    kept_fd = pipe_fd[0];
    if (copy) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        rc = host_start() || unshare_keeping(&kept_fd, 1, FLOOR_WANTED, true) < 0 ||
             put_guards(FLOOR_WANTED) < 0 || put_marker(FLOOR_WANTED) < 0;
    } else {
        rc = boot_fdtable_unshare(&kept_fd, 1);
    }
    sem_post(&done);
    while (sem_wait(&begin) == 0 && !quit) {
        job();
        sem_post(&done);
    }
    return NULL;
}

static void in_engine(void (*fn)(void))
{
    job = fn;
    sem_post(&begin);
    sem_wait(&done);
}

static unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/thread-self/fd");
    unsigned n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void look_at_table(void)
{
    struct stat null, st;

    rc = 0;
    stat("/dev/null", &null);
    for (int fd = 3; fd < FLOOR_WANTED; fd++)
        if (fstat(fd, &st) < 0 || st.st_rdev != null.st_rdev)
            rc = fd;
    if (fstat(0, &st) < 0 || st.st_rdev != null.st_rdev)
        rc = -1;
    if (fcntl(1, F_GETFD) < 0 || fcntl(2, F_GETFD) < 0)
        rc = -2;
    where = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (where < FLOOR_WANTED)
        rc = -3;
}

static void read_kept(void)
{
    char c = 0;
    rc = read(kept_fd, &c, 1) == 1 ? c : -1;
}

static void read_zero(void)
{
    char c = 1;
    rc = read(where, &c, 1) == 1 ? c : -1;
}

static void *is_private_thread(void *arg)
{
    *(bool *)arg = boot_fdtable_is_private();
    return NULL;
}

static void child_thread_is_private(void)
{
    pthread_t thread;
    bool result = false;

    pthread_create(&thread, NULL, is_private_thread, &result);
    pthread_join(thread, NULL);
    rc = result && boot_fdtable_is_private();
}

static void host_thread_is_not(void)
{
    pthread_t thread;
    bool result = true;

    rc = boot_fdtable_host_thread(&thread, is_private_thread, &result);
    if (rc == 0)
        pthread_join(thread, NULL);
    rc = rc == 0 && !result;
}

static void drop_stdio(void)
{
    struct stat null, st;
    boot_fdtable_drop(1);
    boot_fdtable_drop(2);
    stat("/dev/null", &null);
    rc = fstat(1, &st) == 0 && st.st_rdev == null.st_rdev && fstat(2, &st) == 0 &&
         st.st_rdev == null.st_rdev;
}

/* All that was opened or kept; the table is still known for what it is. */
static void close_all(void)
{
    boot_fdtable_close_all();
    rc = fcntl(kept_fd, F_GETFD) < 0 && fcntl(where, F_GETFD) < 0 &&
         fcntl(0, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 && boot_fdtable_is_private();
}

static void run(bool copy)
{
    pthread_t thread;
    sigset_t all, old;
    unsigned before;
    int low;

    quit = false;
    marker.number = 0;
    sem_init(&begin, 0, 0);
    sem_init(&done, 0, 0);
    assert_int_equal(pipe(pipe_fd), 0);
    before = count_fds();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    assert_int_equal(pthread_create(&thread, NULL, engine, copy ? &thread : NULL), 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sem_wait(&done);
    assert_int_equal(rc, 0);
    assert_true(kept_fd >= FLOOR_WANTED);

    /* The program's table is as it was, and its lowest free number is what it would have
     * been. */
    assert_int_equal(count_fds(), before);
    assert_int_equal(fcntl(kept_fd, F_GETFD), -1);
    assert_false(boot_fdtable_is_private());

    in_engine(look_at_table);
    assert_int_equal(rc, 0);
    low = open("/dev/null", O_RDONLY);
    assert_true(low < 20);
    close(low);

    /* Both reach the pipe, each by its own number. */
    assert_int_equal(write(pipe_fd[1], "a", 1), 1);
    in_engine(read_kept);
    assert_int_equal(rc, 'a');

    /* What the program closes stays open here. */
    closefrom(3);
    in_engine(read_zero);
    assert_int_equal(rc, 0);
    in_engine(read_kept); /* the writing end is closed in the only table that had it */
    assert_int_equal(rc, -1);

    /* A child has the program's table. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(fcntl(where, F_GETFD) == -1 && fcntl(kept_fd, F_GETFD) == -1 &&
                      !boot_fdtable_is_private()
                  ? 0
                  : 1);
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);

    in_engine(child_thread_is_private);
    assert_int_equal(rc, 1);
    in_engine(host_thread_is_not);
    assert_int_equal(rc, 1);

    /* Standard output is the program's until it is dropped, and then only here. */
    in_engine(drop_stdio);
    assert_int_equal(rc, 1);
    assert_false(fcntl(1, F_GETFD) < 0);

    low = open("/dev/null", O_RDONLY);
    where = dup2(low, where); /* the same number, in this table */
    boot_fdtable_close_all(); /* not this one */
    assert_true(fcntl(where, F_GETFD) >= 0);
    in_engine(close_all);
    assert_int_equal(rc, 1);
    assert_true(fcntl(where, F_GETFD) >= 0);
    close(where);
    close(low);

    quit = true;
    sem_post(&begin);
    pthread_join(thread, NULL);
}

static void test_unshare(void **state)
{
    (void)state;
    run(false);
}

static void test_unshare_old_kernel(void **state)
{
    (void)state;
    run(true);
}

/* Someone waits for the end of file of our standard output's pipe: dropping lets it come.
 */
static void test_drop_stdio_ends_pipe(void **state)
{
    int out[2];
    char c;

    (void)state;
    assert_int_equal(pipe(out), 0);
    int saved = dup(1);
    fflush(stdout);
    dup2(out[1], 1);
    close(out[1]);
    assert_int_equal(pipe(pipe_fd), 0);
    pthread_t thread;
    quit = false;
    marker.number = 0;
    pthread_create(&thread, NULL, engine, NULL);
    sem_wait(&done);
    dup2(saved, 1);
    assert_int_equal(rc, 0);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    assert_int_equal(read(out[0], &c, 1), -1); /* the private table still has it */
    in_engine(drop_stdio);
    assert_int_equal(read(out[0], &c, 1), 0);
    quit = true;
    sem_post(&begin);
    pthread_join(thread, NULL);
}

/* A thread of a dead library, which stays in the table that the others leave. */
static sem_t stays, looks;
static bool straggler_has;

static void *straggler(void *arg)
{
    (void)arg;
    sem_post(&looks);
    sem_wait(&stays);
    straggler_has = fcntl(kept_fd, F_GETFD) >= 0 || fcntl(where, F_GETFD) >= 0 ||
                    !boot_fdtable_is_private();
    return NULL;
}

static void move_and_take(void)
{
    pthread_t thread;
    int fd;

    sem_init(&stays, 0, 0);
    sem_init(&looks, 0, 0);
    where = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    pthread_create(&thread, NULL, straggler, NULL);
    sem_wait(&looks);
    fd = boot_fdtable_move(kept_fd);
    sem_post(&stays);
    pthread_join(thread, NULL);
    rc = 0;
    if (fd < 0 || straggler_has || boot_fdtable_is_private())
        rc = 1;
    else if (count_fds() != 7 ||
             fcntl(where, F_GETFD) >= 0) /* 0-2, fd, the list, . and .. */
        rc = 2;
    else if (boot_fdtable_move(fd) >= 0 || errno != EINVAL)
        rc = 3;
    else if (boot_fdtable_take(&fd) < 0 || fd < FLOOR_WANTED || !boot_fdtable_is_private())
        rc = 4;
    kept_fd = fd;
}

static void test_move(void **state)
{
    pthread_t thread;

    (void)state;
    quit = false;
    marker.number = 0;
    assert_int_equal(pipe(pipe_fd), 0);
    pthread_create(&thread, NULL, engine, NULL);
    sem_wait(&done);
    assert_int_equal(rc, 0);
    assert_int_equal(boot_fdtable_move(pipe_fd[0]), -1); /* not from here */
    for (int i = 0; i < 3; i++) {
        in_engine(move_and_take);
        assert_int_equal(rc, 0);
        in_engine(look_at_table);
        assert_int_equal(rc, 0);
        assert_int_equal(write(pipe_fd[1], "b", 1), 1);
        in_engine(read_kept);
        assert_int_equal(rc, 'b');
    }
    /* Nobody has the pipe's end any more when the engine and the program have let go. */
    close(pipe_fd[0]);
    in_engine(close_all);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(write(pipe_fd[1], "c", 1), -1);
    close(pipe_fd[1]);
    quit = true;
    sem_post(&begin);
    pthread_join(thread, NULL);
}

static void test_bad_arguments(void **state)
{
    int keep[KEEP_MAX + 1] = {0};

    (void)state;
    assert_int_equal(boot_fdtable_unshare(keep, KEEP_MAX + 1), -1);
    keep[0] = 9999;
    assert_int_equal(boot_fdtable_unshare(keep, 1), -1);
    assert_int_equal(errno, EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_unshare),
        cmocka_unit_test(test_unshare_old_kernel),
        cmocka_unit_test(test_drop_stdio_ends_pipe),
        cmocka_unit_test(test_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
