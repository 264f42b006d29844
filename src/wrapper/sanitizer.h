/*
 * wrapper/sanitizer.h - programs that were built with a sanitizer
 */
#ifndef DYAD_WRAPPER_SANITIZER_H
#define DYAD_WRAPPER_SANITIZER_H

#include <stdbool.h>

/* What this thread does from here on, or no longer, is not for ThreadSanitizer to look at,
 * where the program has it. In pairs; they nest. Async-signal-safe. */
void wrapper_sanitizer_leave_alone(bool begins);

#endif
