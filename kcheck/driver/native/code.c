/* Code of the program, and launches. */
#include "client.h"

static int load_images(handle *out, const u64 *images, u64 count) {
    u64 place[256], staged;
    size_t total = 0, at = count * 8;
    if (count > 256) return INVALID_VALUE;
    for (u64 n = 0; n < count; n++) {
        const unsigned char *image = (const unsigned char *)images[n];
        u32 magic;
        u64 size;
        memcpy(&magic, image, 4);
        if (magic == 0x466243B1) memcpy(&image, image + 8, 8), memcpy(&magic, image, 4);
        if (magic == 0xBA55ED50) memcpy(&size, image + 8, 8), size += 16;
        else size = magic == 0x464c457f ? 64 : strlen((const char *)image) + 1;
        place[n] = size, total += (size + 31) / 16 * 16;
    }
    int error = REMOTE("kcheckStage", A(&staged), total + at + 64);
    if (error) return error;
    char *to = (char *)staged + (at + 15) / 16 * 16;
    for (u64 n = 0; n < count; n++) {
        const unsigned char *image = (const unsigned char *)images[n];
        u32 magic;
        memcpy(&magic, image, 4);
        if (magic == 0x466243B1) memcpy(&image, image + 8, 8);
        memcpy(to, image, place[n]);
        ((u64 *)staged)[n] = A(to);
        to += (place[n] + 31) / 16 * 16;
    }
    error = REMOTE("kcheckLoad", A(out), staged, count);
    REMOTE("kcheckUnstage", staged);
    return error;
}
static int library_load(u64 out, u64 images, u64 count) { return load_images((handle *)out, (const u64 *)images, count); }
static int module_load(u64 out, u64 image) { return load_images((handle *)out, &image, 1); }
static int module_load_file(u64 out, u64 path) {
    FILE *file = fopen((const char *)path, "rb");
    if (!file) return 301; /* CUDA_ERROR_FILE_NOT_FOUND */
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    char *content = calloc(1, (size_t)size + 1);
    rewind(file);
    size_t got = fread(content, 1, (size_t)size, file);
    fclose(file);
    int error = got == (size_t)size ? module_load(out, A(content)) : 301;
    free(content);
    return error;
}

struct layout { u64 kernel, count; u32 *slots; }; /* offset and size of each parameter */
static struct layout *layouts[1024];
static const struct layout *layout_of(u64 kernel, int *error) {
    u64 n = kernel / 16;
    for (int k = 0; k < 1024; k++, n++) {
        struct layout *known = __atomic_load_n(&layouts[n % 1024], __ATOMIC_ACQUIRE);
        if (known && known->kernel == kernel) return known;
        if (known && k < 1023) continue;
        u32 *slots = malloc(32768);
        struct layout *made = malloc(sizeof *made);
        *error = REMOTE("kcheckParams", kernel, A(slots), 4096);
        if (*error) { free(slots), free(made); return NULL; }
        *made = (struct layout){kernel, slots[0], slots + 1};
        __atomic_store_n(&layouts[n % 1024], made, __ATOMIC_RELEASE);
        return made;
    }
    return NULL;
}
static int launch_any(const u64 *a, u64 params, u64 extra, int is_cooperative) {
    int error = 0;
    if (kc_is_forked) return NOT_INITIALIZED;
    kc_wait_for_host_work();
    const struct layout *layout = layout_of(a[0], &error);
    if (!layout) return error;
    char *scratch = kc_connected(), *block = scratch + 4096;
    u64 size = 0;
    if (params)
        for (u64 n = 0; n < layout->count; n++) {
            u32 offset = layout->slots[2 * n], bytes = layout->slots[2 * n + 1];
            memcpy(block + offset, ((void **)params)[n], bytes);
            size = offset + bytes;
        }
    for (const u64 *e = (const u64 *)extra; !params && e && e[0]; e += 2) {
        if (e[0] == 2) size = *(u64 *)e[1];
    }
    for (const u64 *e = (const u64 *)extra; !params && e && e[0]; e += 2)
        if (e[0] == 1) memcpy(block, (void *)e[1], size < 65536 ? size : 65536);
    u64 *words = (u64 *)scratch;
    words[0] = 1, words[1] = A(block), words[2] = 2, words[3] = A(&words[5]), words[4] = 0, words[5] = size;
    u64 sent[ARGUMENTS] = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], 0, A(words)};
    if (is_cooperative) sent[9] = A(words);
    return kc_send(is_cooperative ? "kcheckLaunchCooperative" : "cuLaunchKernel", sent, 0);
}
static driver_function in_process; /* cuLaunchKernel of the stub driver in a Python process */
static int launch_kernel(u64 f, u64 gx, u64 gy, u64 gz, u64 bx, u64 by, u64 bz, u64 shared, u64 stream, u64 params, u64 extra) {
    if (kc_captured(stream)) {
        if (!params) return kc_refuse("a launch with packed parameters in a stream that is captured");
        dim grid = {(u32)gx, (u32)gy, (u32)gz}, block = {(u32)bx, (u32)by, (u32)bz};
        return kc_launch(f, grid, block, (void **)params, (u32)shared, stream, 0);
    }
    if (in_process) return in_process(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra, 0);
    return launch_any((const u64[]){f, gx, gy, gz, bx, by, bz, (u32)shared, stream}, params, extra, 0);
}
static int launch_cooperative(u64 f, u64 gx, u64 gy, u64 gz, u64 bx, u64 by, u64 bz, u64 shared, u64 stream, u64 params) {
    return launch_any((const u64[]){f, gx, gy, gz, bx, by, bz, (u32)shared, stream}, params, 0, 1);
}
/* The function through which a Python process launches, so that the runtime can record launches of the driver API. */
API void *kcheck_launches(driver_function native);
API void *kcheck_launches(driver_function native) {
    in_process = native;
    return (void *)launch_kernel;
}
static int function_name(u64 out, u64 kernel) {
    char name[4096];
    int error = REMOTE("kcheckName", kernel, A(name));
    if (!error) *(char **)out = strdup(name);
    return error;
}
static int pointer_attribute(u64 out, u64 number, u64 address) {
    static const u64 wide = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 11 | 1 << 12;
    u64 value = 0;
    int error = REMOTE("cuPointerGetAttribute", A(&value), number, address);
    if (!error) memcpy((void *)out, &value, wide >> (u32)number & 1 ? 8 : 4);
    return error;
}
static int pool_attribute(u64 pool, u64 number, u64 out) {
    u64 value = 0;
    int error = REMOTE("cuMemPoolGetAttribute", pool, number, A(&value));
    if (!error) memcpy((void *)out, &value, (u32)number <= 3 ? 4 : 8);
    return error;
}
extern const char *cudaGetErrorString(int), *cudaGetErrorName(int);
static int error_string(u64 number, u64 out) { *(const char **)out = cudaGetErrorString((int)number); return 0; }
static int error_name(u64 number, u64 out) { *(const char **)out = cudaGetErrorName((int)number); return 0; }
static int no_export_table(u64 out) { *(void **)out = NULL; return 500; }

const struct named kc_code_calls[] = {
    {"kcheckLibraryLoad", library_load}, {"cuModuleLoadData", module_load}, {"cuModuleLoadDataEx", module_load},
    {"cuModuleLoadFatBinary", module_load}, {"cuLibraryLoadData", module_load}, {"cuModuleLoad", module_load_file},
    {"cuLaunchKernel", launch_kernel}, {"cuLaunchCooperativeKernel", launch_cooperative}, {"cuFuncGetName", function_name},
    {"cuPointerGetAttribute", pointer_attribute}, {"cuMemPoolGetAttribute", pool_attribute}, {"cuGetErrorString", error_string}, {"cuGetErrorName", error_name},
    {"cuGetExportTable", no_export_table}, {NULL, NULL},
};
