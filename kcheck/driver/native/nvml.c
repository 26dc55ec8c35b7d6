/* NVIDIA's management library, as far as programs ask whether there is a GPU, and which. The facts are in an environment
 * variable (kcheck/driver/smi.py). Source: nvml.h and the NVML API Reference Guide. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef struct device *device;
#define API __attribute__((visibility("default"))) int
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static struct {
    int is_known, users, major, minor, cuda;
    u64 memory;
    char name[64], driver[32], uuid[64];
} facts;
static const char bus[] = "00000000:00:00.0";
static struct device { int index; } only;

#define READY                                     \
    do {                                          \
        if (!facts.users) return UNINITIALIZED;   \
    } while (0)
#define NEEDS(condition)                          \
    do {                                          \
        READY;                                    \
        if (!(condition)) return INVALID_ARGUMENT; \
    } while (0)

static int text(char *to, unsigned size, const char *from) {
    if (size < strlen(from) + 1) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return SUCCESS;
}
API nvmlInitWithFlags(unsigned flags) {
    const char *told = getenv("KCHECK_NVML");
    (void)flags;
    if (!facts.is_known)
        facts.is_known = told && sscanf(told, "%63[^\n]\n%d\n%d\n%llu\n%d\n%31[^\n]\n%63[^\n]", facts.name, &facts.major,
                                        &facts.minor, &facts.memory, &facts.cuda, facts.driver, facts.uuid) == 7;
    if (!facts.is_known) return 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
    facts.users++;
    return SUCCESS;
}
API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlInit(void) { return nvmlInitWithFlags(0); }
API nvmlShutdown(void) {
    READY;
    facts.users--;
    return SUCCESS;
}
__attribute__((visibility("default"))) const char *nvmlErrorString(int result) {
    static const char *const texts[] = {"Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
                                        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
                                        "Driver Not Loaded"};
    return result >= 0 && result < (int)(sizeof texts / sizeof *texts) ? texts[result] : "Unknown Error";
}
API nvmlSystemGetDriverVersion(char *to, unsigned size) { NEEDS(to); return text(to, size, facts.driver); }
API nvmlSystemGetNVMLVersion(char *to, unsigned size) { NEEDS(to); return text(to, size, facts.driver); }
API nvmlSystemGetCudaDriverVersion(int *to) { NEEDS(to); *to = facts.cuda; return SUCCESS; }
API nvmlSystemGetCudaDriverVersion_v2(int *to) { return nvmlSystemGetCudaDriverVersion(to); }
API nvmlDeviceGetCount_v2(unsigned *to) { NEEDS(to); *to = 1; return SUCCESS; }
API nvmlDeviceGetCount(unsigned *to) { return nvmlDeviceGetCount_v2(to); }
API nvmlDeviceGetHandleByIndex_v2(unsigned index, device *to) { NEEDS(to && !index); *to = &only; return SUCCESS; }
API nvmlDeviceGetHandleByIndex(unsigned index, device *to) { return nvmlDeviceGetHandleByIndex_v2(index, to); }
API nvmlDeviceGetHandleByUUID(const char *uuid, device *to) {
    NEEDS(uuid && to);
    *to = &only;
    return strcmp(uuid, facts.uuid) ? NOT_FOUND : SUCCESS;
}
API nvmlDeviceGetHandleByPciBusId_v2(const char *id, device *to) {
    NEEDS(id && to);
    *to = &only;
    return strcasecmp(id, bus) && strcasecmp(id, bus + 4) ? NOT_FOUND : SUCCESS;
}
API nvmlDeviceGetName(device d, char *to, unsigned size) { NEEDS(d && to); return text(to, size, facts.name); }
API nvmlDeviceGetUUID(device d, char *to, unsigned size) { NEEDS(d && to); return text(to, size, facts.uuid); }
API nvmlDeviceGetIndex(device d, unsigned *to) { NEEDS(d && to); *to = 0; return SUCCESS; }
API nvmlDeviceGetMinorNumber(device d, unsigned *to) { NEEDS(d && to); *to = 0; return SUCCESS; }
API nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) {
    NEEDS(d && major && minor);
    *major = facts.major, *minor = facts.minor;
    return SUCCESS;
}
API nvmlDeviceGetMemoryInfo(device d, u64 *to) { /* total, free, used */
    NEEDS(d && to);
    to[0] = to[1] = facts.memory, to[2] = 0;
    return SUCCESS;
}
API nvmlDeviceGetMemoryInfo_v2(device d, u64 *to) { /* version, total, reserved, free, used */
    NEEDS(d && to);
    to[1] = to[3] = facts.memory, to[2] = to[4] = 0;
    return SUCCESS;
}
API nvmlDeviceGetUtilizationRates(device d, unsigned *to) { NEEDS(d && to); to[0] = to[1] = 0; return SUCCESS; }
API nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, void *to) {
    (void)to;
    NEEDS(d && count);
    *count = 0;
    return SUCCESS;
}
API nvmlDeviceGetComputeRunningProcesses(device d, unsigned *count, void *to) {
    return nvmlDeviceGetComputeRunningProcesses_v3(d, count, to);
}

/* What a processor has no value for. */
#define ABSENT(name) API name(void) { READY; return NOT_SUPPORTED; }
ABSENT(nvmlDeviceGetTemperature)
ABSENT(nvmlDeviceGetPowerUsage)
ABSENT(nvmlDeviceGetEnforcedPowerLimit)
ABSENT(nvmlDeviceGetPowerManagementLimit)
ABSENT(nvmlDeviceGetTotalEnergyConsumption)
ABSENT(nvmlDeviceGetFanSpeed)
ABSENT(nvmlDeviceGetClockInfo)
ABSENT(nvmlDeviceGetMaxClockInfo)
ABSENT(nvmlDeviceGetNvLinkState)
ABSENT(nvmlDeviceGetP2PStatus)
ABSENT(nvmlDeviceGetMigMode)
