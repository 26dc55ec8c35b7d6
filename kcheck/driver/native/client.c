/* The functions of the driver API by name, for the runtime and for programs that are linked with the driver. */
#include "client.h"

#include <dlfcn.h>

/* A function for the nth call of the table, or of the names that are not in it. */
#define EIGHT(F, n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
#define GENERIC(n)                                                                                               \
    static int generic##n(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {  \
        if (strstr(kc_calls[n].name, "Synchronize") || strstr(kc_calls[n].name, "Event")) kc_wait_for_host_work();        \
        return kc_remote(&kc_calls[n], (const u64[ARGUMENTS]){a, b, c, d, e, f, g, h, i, j, k, l});                    \
    }
#define ALL(F) EIGHT(F, 0) EIGHT(F, 01) EIGHT(F, 02) EIGHT(F, 03) EIGHT(F, 04) EIGHT(F, 05) EIGHT(F, 06) EIGHT(F, 07) \
    EIGHT(F, 010) EIGHT(F, 011) EIGHT(F, 012) EIGHT(F, 013) EIGHT(F, 014) EIGHT(F, 015) EIGHT(F, 016) EIGHT(F, 017)
#pragma GCC diagnostic ignored "-Warray-bounds"
ALL(GENERIC)
#define ADDRESS(n) generic##n,
static const driver_function generic[] = {ALL(ADDRESS)};
_Static_assert(MOST_CALLS <= sizeof generic / sizeof *generic, "add a row to ALL");

static int unknown(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
    fprintf(stderr, "kcheck: a function of the CUDA driver that the cpu device does not support was called\n");
    return NOT_SUPPORTED;
}
static driver_function function_of(const char *name) {
    static const struct named *const tables[] = {kc_host_calls, kc_copy_calls, kc_code_calls};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct named *row = tables[t]; row->name; row++)
            if (!strcmp(row->name, name)) return (driver_function)row->function;
    const struct call *call = kc_call_of(name);
    return call ? generic[call - kc_calls] : NULL;
}
static int look_up(const char *name, void **out, int version, u64 flags, int *status) {
    (void)version, (void)flags;
    *(driver_function *)out = kc_resolve(name);
    if (status) *status = 0;
    return 0;
}
static int no_call(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
    return 0;
}
/* In a Python process, the stub driver is loaded, and the engine is in the process. When Python has ended, the stub
 * finds nothing, and destructors may still call. */
static driver_function in_process(const char *name) {
    static int (*stub)(const char *, driver_function *, int, u64, int *);
    driver_function found = NULL;
    void *driver = stub ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver && dlsym(driver, "kcheck_slots")) *(void **)&stub = dlsym(driver, "cuGetProcAddress_v2");
    if (stub) stub(name, &found, 12000, 0, NULL);
    return stub && !found ? no_call : found;
}
driver_function kc_resolve(const char *name) {
    char plain[128];
    driver_function native = kc_owner ? NULL : in_process(name);
    if (native) return native;
    if (!strncmp(name, "cuGetProcAddress", 16)) return (driver_function)(void *)look_up;
    driver_function found = function_of(name);
    for (int cut = 0; !found && cut < 2; cut++) { /* _v2 and _ptsz */
        snprintf(plain, sizeof plain, "%s", cut ? plain : name);
        char *end = strrchr(plain, '_');
        if (!end) break;
        *end = 0;
        found = function_of(plain);
    }
    return found ? found : unknown;
}
#define EXPORT(name)                                                                                             \
    API int name(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {           \
        static driver_function found;                                                                            \
        if (!found) found = kc_resolve(#name);                                                                   \
        return found(a, b, c, d, e, f, g, h, i, j, k, l);                                                        \
    }
#include "driver.h"