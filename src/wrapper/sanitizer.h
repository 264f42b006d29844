/*
 * wrapper/sanitizer.h - programs that were built with a sanitizer
 */
#ifndef DYAD_WRAPPER_SANITIZER_H
#define DYAD_WRAPPER_SANITIZER_H

#include <stdbool.h>

/* Let ThreadSanitizer, if the program has it, ignore this thread (`begins`), or no
 * longer. Called in pairs, which nest. Async-signal-safe. */
void wrapper_sanitizer_leave_alone(bool begins);

#endif
