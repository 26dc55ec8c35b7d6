/* Functions of the API that no other file defines: a program that calls one is told so. */
int kc_refuse(const char *name);

#define REFUSED(name) \
    __attribute__((weak, visibility("default"))) int name(void) { return kc_refuse(#name); }
#include "refused.h"
