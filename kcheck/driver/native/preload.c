/* Makes a program use this runtime where nvcc linked NVIDIA's statically: at load, each of its functions in the program
 * gets a jump to the function of the same name here. That needs the program's symbol table. Modules of Python that load
 * later are changed by kcheck_redirect. */
#include "runtime.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char jump[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0, 0, 0, 0}; /* endbr64; jmp *(next 8 bytes) */
#elif defined(__aarch64__)
static const unsigned char jump[] = {0x5f, 0x24, 0x03, 0xd5, 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6}; /* bti c; ldr x16, 8; br x16 */
#else
#error "kcheck runs programs on x86-64 and AArch64"
#endif

static void *self;

static void redirect(char *at, void *to) {
    u64 page = (u64)sysconf(_SC_PAGESIZE), low = A(at) & ~(page - 1), high = (A(at) + sizeof jump + 8 + page - 1) & ~(page - 1);
    if (mprotect((void *)low, high - low, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
    memcpy(at, jump, sizeof jump);
    memcpy(at + sizeof jump, &to, 8);
    mprotect((void *)low, high - low, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(at, at + sizeof jump + 8);
}

static int is_runtime(const char *name) { return !strncmp(name, "cuda", 4) || !strncmp(name, "__cuda", 6); }

/* Returns 1 if NVIDIA's runtime was found in the object. */
static int redirect_all(const char *image, const ElfW(Shdr) *symbols, const ElfW(Shdr) *strings, u64 base) {
    const ElfW(Sym) *row = (const void *)(image + symbols->sh_offset);
    int found = 0;
    for (size_t n = 0; n < symbols->sh_size / sizeof *row; n++) {
        const char *name = image + strings->sh_offset + row[n].st_name;
        if (ELF64_ST_TYPE(row[n].st_info) != STT_FUNC || !row[n].st_shndx || !is_runtime(name)) continue;
        void *ours = dlsym(self, name);
        if (ours && row[n].st_size >= sizeof jump + 8 && ours != (void *)(base + row[n].st_value)) {
            redirect((char *)(base + row[n].st_value), ours);
            found = 1;
        }
    }
    return found;
}

static int needs_runtime(const struct dl_phdr_info *info) {
    const char *strings = NULL;
    int needed = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < info->dlpi_phnum; n++) {
            if (info->dlpi_phdr[n].p_type != PT_DYNAMIC) continue;
            for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + info->dlpi_phdr[n].p_vaddr); d->d_tag != DT_NULL; d++) {
                if (d->d_tag == DT_STRTAB) strings = (const char *)d->d_un.d_ptr;
                if (pass && d->d_tag == DT_NEEDED && strings) needed |= !strncmp(strings + d->d_un.d_val, "libcudart", 9);
            }
        }
    return needed;
}

/* The content of an object's file, and its sections; NULL if it has none. The caller unmaps it. */
static char *content_of(const char *path, size_t *size, const ElfW(Shdr) **sections, int *count) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) || status.st_size < (off_t)sizeof(ElfW(Ehdr))) {
        if (file >= 0) close(file);
        return NULL;
    }
    char *image = mmap(NULL, *size = (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED) return NULL;
    const ElfW(Ehdr) *head = (const void *)image;
    *sections = (const void *)(image + head->e_shoff), *count = head->e_shnum;
    if (!memcmp(image, ELFMAG, 4) && head->e_shnum && head->e_shoff + (u64)head->e_shnum * sizeof **sections <= *size) return image;
    munmap(image, *size);
    return NULL;
}

static int examine(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    static const char *const machine_code[] = {"libcublas", "libcufft", "libcudnn", "libcusparse", "libcusolver", "libcurand", "libnccl", "libnpp"};
    const char *base_name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (size_t n = 0; n < sizeof machine_code / sizeof *machine_code; n++)
        if (!strncmp(base_name, machine_code[n], strlen(machine_code[n])))
            fprintf(stderr, "kcheck: %s contains machine code only, which the cpu device cannot run: its calls fail; "
                            "use kernels of your own, or a library for the CPU\n", base_name);
    size_t length;
    const ElfW(Shdr) *sections;
    int count, has_code = 0, has_symbols = 0, found = 0;
    char *image = content_of(path, &length, &sections, &count);
    if (!image) return 0;
    const char *names = image + sections[((const ElfW(Ehdr) *)image)->e_shstrndx].sh_offset;
    for (int n = 0; n < count; n++) has_code |= !strcmp(names + sections[n].sh_name, ".nv_fatbin");
    if (!has_code || strstr(path, "libcu") || strstr(path, "libnv")) goto done;
    for (int n = 0; n < count; n++)
        if (sections[n].sh_type == SHT_SYMTAB) {
            has_symbols = 1;
            found |= redirect_all(image, &sections[n], &sections[sections[n].sh_link], info->dlpi_addr);
        }
    if (!has_symbols && !found && !needs_runtime(info))
        fprintf(stderr, "kcheck: %s has no symbol table, so kcheck cannot find NVIDIA's runtime in it; link with "
                        "-cudart shared, or do not strip the program\n", program_invocation_name);
done:
    munmap(image, length);
    return 0;
}

struct wanted { const char *path; int found; };
static int redirect_in(struct dl_phdr_info *info, size_t size, void *given) {
    (void)size;
    struct wanted *wanted = given;
    size_t length;
    const ElfW(Shdr) *sections;
    int count;
    if (!info->dlpi_name || strcmp(info->dlpi_name, wanted->path)) return 0;
    char *image = content_of(wanted->path, &length, &sections, &count);
    for (int n = 0; image && n < count; n++)
        if (sections[n].sh_type == SHT_SYMTAB) wanted->found |= redirect_all(image, &sections[n], &sections[sections[n].sh_link], info->dlpi_addr);
    if (image) munmap(image, length);
    return 1;
}
/* For an object without kernels that is loaded; whether NVIDIA's runtime was found in it. */
API int kcheck_redirect(const char *path);
API int kcheck_redirect(const char *path) {
    struct wanted wanted = {path, 0};
    if (self) dl_iterate_phdr(redirect_in, &wanted);
    return wanted.found;
}

__attribute__((constructor)) static void preloaded(void) {
    Dl_info here;
    if (!getenv("KCHECK_DEVICE") || !dladdr((void *)preloaded, &here)) return;
    self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (self) dl_iterate_phdr(examine, NULL);
}
