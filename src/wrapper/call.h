/*
 * wrapper/call.h - calls into the engine: signals and cancellation
 */
#ifndef DYAD_WRAPPER_CALL_H
#define DYAD_WRAPPER_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* > 0: calls of this thread pass through, since it is in the engine or belongs to it. */
extern __thread int wrapper_guard __attribute__((tls_model("initial-exec")));

/* Call into the engine: ENGINE_CALL(r, ops->consume(...)). Signals are blocked and the
 * thread is not cancelled, except while the engine waits. */
struct wrapper_call {
    uint64_t mask; /* the program's */
    int cancel, guard;
    struct wrapper_call *outer;
};
void wrapper_call_begin(struct wrapper_call *call);
void wrapper_call_end(struct wrapper_call *call);
/* engine_host.waits */
void wrapper_call_waits(bool begins, bool may_cancel);
/* Block the signals that can wait; *mask: what was blocked before. Keeps errno. */
void wrapper_signals_block(uint64_t *mask);
void wrapper_signals_restore(const uint64_t *mask);

#define ENGINE_CALL(expr)                  \
    ({                                     \
        struct wrapper_call call_;         \
        wrapper_call_begin(&call_);        \
        __typeof__(expr) result_ = (expr); \
        wrapper_call_end(&call_);          \
        result_;                           \
    })
#define ENGINE_CALL_VOID(expr)      \
    do {                            \
        struct wrapper_call call_;  \
        wrapper_call_begin(&call_); \
        expr;                       \
        wrapper_call_end(&call_);   \
    } while (0)

#endif
