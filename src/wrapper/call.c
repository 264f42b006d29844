/*
 * call.c - a call into the engine, as signals and cancellation see it
 *
 * A handler that opens a file below a managed directory while its thread is inside the
 * engine would find records half changed, or wait for a lock of its own thread. So
 * signals are blocked for the time of the call, but for those that stand for a fault of
 * the thread itself and the two of libc's; and the thread is not cancelled half way. That
 * costs two system calls, some 0.2 us, where the call itself makes a dozen. While the
 * engine blocks all of that is undone: wrapper_call_waits().
 */
#include "wrapper/call.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/sanitizer.h"

__thread int wrapper_guard __attribute__((tls_model("initial-exec")));

/* The innermost call of this thread. */
static __thread struct wrapper_call *current __attribute__((tls_model("initial-exec")));

static void set_mask(const uint64_t *mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, old, sizeof(*mask));
}

void wrapper_signals_block(uint64_t *mask)
{
#define BIT(signal) ((uint64_t)1 << ((signal)-1))
    static const uint64_t blocked =
        ~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) |
          BIT(SIGSYS) | BIT(SIGABRT) | BIT(32) /* SIGCANCEL */ | BIT(33) /* SIGSETXID */);
#undef BIT

    set_mask(&blocked, mask);
}

void wrapper_signals_restore(const uint64_t *mask)
{
    set_mask(mask, NULL);
}

void wrapper_call_begin(struct wrapper_call *call)
{
    wrapper_signals_block(&call->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel);
    call->outer = current;
    current = call;
    wrapper_guard++;
    wrapper_sanitizer_leave_alone(true);
}

void wrapper_call_end(struct wrapper_call *call)
{
    wrapper_sanitizer_leave_alone(false);
    wrapper_guard--;
    current = call->outer;
    pthread_setcancelstate(call->cancel, NULL);
    wrapper_signals_restore(&call->mask);
}

/* When the engine blocks (a file that is awaited may come in hours) it says so: then the
 * program's mask is in force again and the guard is down, so a handler runs when it
 * should, and its own calls are full ones, nested in this. Nothing of the engine's is
 * half done then. Where the wait may end by cancellation, that is possible too. A handler
 * that jumps out of the wait leaves a connection behind, nothing more. */
void wrapper_call_waits(bool begins, bool may_cancel)
{
    struct wrapper_call *call = current;

    if (!call)
        return; /* not a thread of the program's */
    if (begins) {
        wrapper_sanitizer_leave_alone(false);
        call->guard = wrapper_guard;
        wrapper_guard = 0;
        wrapper_signals_restore(&call->mask);
        if (may_cancel)
            pthread_setcancelstate(call->cancel, NULL);
    } else {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        wrapper_signals_block(&call->mask);
        wrapper_guard = call->guard;
        current = call;
        wrapper_sanitizer_leave_alone(true);
    }
}
