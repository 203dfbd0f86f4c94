/* A stand-in for Chromium's libvk_swiftshader.so: forwards all of Vulkan to Mesa's lavapipe and changes one thing only,
 * the adapter's reported ids, which become SwiftShader's. A test device: README.md says why, and when it can be removed.
 *
 * In: Vulkan calls, of which a driver needs two entries: "which functions have you?" and "which loader are you?".
 * Out: lavapipe's own functions, but for those that report an adapter's properties, which are wrapped.
 * libvulkan_lvp.so is found through LD_LIBRARY_PATH, which kernel-lab gives to the browser alone.
 *
 * No Vulkan headers: the few declarations below are fixed by Vulkan's binary interface. Names are Vulkan's own.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { SWIFTSHADER_VENDOR = 0x1AE0, SWIFTSHADER_DEVICE = 0xC0DE, ERROR_INCOMPATIBLE_DRIVER = -9 };

typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void *instance, const char *name);
typedef int32_t (*Negotiate)(uint32_t *version);

struct Properties { /* VkPhysicalDeviceProperties begins so; what follows stays as it is */
    uint32_t api_version, driver_version, vendor_id, device_id;
};
struct Properties2 { /* VkPhysicalDeviceProperties2 */
    uint32_t structure_type;
    void *next;
    struct Properties properties;
};
typedef void (*GetProperties)(void *device, struct Properties *properties);
typedef void (*GetProperties2)(void *device, struct Properties2 *properties);

/* Every instance has the same functions, so these are only ever set to one value each. */
static GetProperties lavapipe_get_properties;
static GetProperties2 lavapipe_get_properties2;

static Function lavapipe(const char *symbol) {
    void *driver = dlopen("libvulkan_lvp.so", RTLD_NOW | RTLD_LOCAL); /* opened once, counted after that */
    Function found = driver ? (Function)dlsym(driver, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "kernel-lab's stand-in: no lavapipe: %s\n", dlerror());
    }
    return found;
}

static void spoof(struct Properties *properties) {
    properties->vendor_id = SWIFTSHADER_VENDOR;
    properties->device_id = SWIFTSHADER_DEVICE;
}

static void get_properties(void *device, struct Properties *properties) {
    lavapipe_get_properties(device, properties);
    spoof(properties);
}

static void get_properties2(void *device, struct Properties2 *properties) {
    lavapipe_get_properties2(device, properties);
    spoof(&properties->properties);
}

EXPORTED Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    GetProcAddr get = (GetProcAddr)lavapipe("vk_icdGetInstanceProcAddr");
    Function found = get ? get(instance, name) : NULL;
    if (!found) {
        return NULL;
    }
    if (!strcmp(name, "vkGetInstanceProcAddr")) {
        return (Function)vk_icdGetInstanceProcAddr;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties")) {
        lavapipe_get_properties = (GetProperties)found;
        return (Function)get_properties;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties2") || !strcmp(name, "vkGetPhysicalDeviceProperties2KHR")) {
        lavapipe_get_properties2 = (GetProperties2)found;
        return (Function)get_properties2;
    }
    return found;
}

/* Dawn opens libvk_swiftshader.so itself and asks for this one; a Vulkan loader asks for the vk_icd… ones. */
EXPORTED Function vkGetInstanceProcAddr(void *instance, const char *name) {
    return vk_icdGetInstanceProcAddr(instance, name);
}

EXPORTED int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    Negotiate negotiate = (Negotiate)lavapipe("vk_icdNegotiateLoaderICDInterfaceVersion");
    return negotiate ? negotiate(version) : ERROR_INCOMPATIBLE_DRIVER;
}
