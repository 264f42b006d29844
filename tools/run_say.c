/*
 * run_say.c - warnings and last words
 */
#include "run_say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "run_check.h"

static bool is_quiet;
static int failure = RUN_EXIT_FAILURE;

static void say(const char *kind, const char *fmt, va_list ap)
{
    char text[4096];

    vsnprintf(text, sizeof(text), fmt, ap);
    fprintf(stderr, "dyad-run: %s%s\n", kind, text);
}

void run_warn(const char *fmt, ...)
{
    va_list ap;

    if (is_quiet)
        return;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}

void run_die(int status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
    exit(status == RUN_EXIT_FAILURE ? failure : status);
}

void run_be_quiet(bool quiet)
{
    is_quiet = quiet;
}

void run_fail_with(int status)
{
    failure = status;
}
