/* Tests a process that ends while a StableHLO program runs on the embedded CPU device, without destroying its client.
 * The device's threads must stop before the exit functions that the process registered run. The callback must not be
 * called, and the exit status must be the one that the process passed to exit. */
#include "check.h"

#ifndef WITH_PJRT
int main(void) {
    printf("SKIPPED exit: it needs the PJRT headers\n");
    printf("0 checks\n");
    return 0;
}
#else
#include <dirent.h>
#include <sched.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xla/pjrt/c/pjrt_c_api.h"

enum { TIMES = 10, CALLED = 42 };

static const char ENDLESS[] =
    "func.func @main(%x: tensor<i32>) -> tensor<i32> {\n"
    "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
    "  %true = stablehlo.constant dense<true> : tensor<i1>\n"
    "  %r = stablehlo.while(%i = %x) : tensor<i32>\n"
    "    cond { stablehlo.return %true : tensor<i1> }\n"
    "    do { %j = stablehlo.add %i, %one : tensor<i32>\n"
    "         stablehlo.return %j : tensor<i32> }\n"
    "  return %r : tensor<i32>\n"
    "}";

/* The children free nothing, so the address sanitizer would report leaks. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static const PJRT_Api *api;

/* In a child, an error becomes the exit status. */
static void must(PJRT_Error *error) {
    if (error != NULL) _exit(2);
}

/* Writes whether the event failed to the pipe `user_arg`. */
static void on_ready(PJRT_Error *error, void *user_arg) {
    const char said = error != NULL ? 'e' : 'r';
    if (write((int)(intptr_t)user_arg, &said, 1) != 1) _exit(3);
    if (error != NULL) {
        PJRT_Error_Destroy_Args args = {.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = error};
        api->PJRT_Error_Destroy(&args);
    }
}

/* Whether a thread of the device is working. */
static bool is_busy(void) {
    bool busy = false;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) return false;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[64], state = 0;
        snprintf(path, sizeof path, "/proc/self/task/%.200s/stat", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        if (fscanf(file, "%*d (%63[^)]) %c", name, &state) == 2 && strncmp(name, "pjrt-cpu", 8) == 0 && state == 'R')
            busy = true;
        fclose(file);
    }
    closedir(tasks);
    return busy;
}

/* Takes the place of the program's destructors. It is registered before the client exists, so it runs after the device
 * has stopped. If the device continues to work, this function waits until the alarm ends the process. */
static void at_exit(void) {
    alarm(60);
    while (is_busy()) sched_yield();
}

/* Launches the program, registers a callback for its end, and starts to read its output. */
static void launch(int pipe_end, int32_t *destination) {
    PJRT_Client_Create_Args create = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    must(api->PJRT_Client_Create(&create));
    PJRT_Client_AddressableDevices_Args devices = {.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE,
                                                   .client = create.client};
    must(api->PJRT_Client_AddressableDevices(&devices));
    PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)ENDLESS,
                            .code_size = sizeof ENDLESS - 1, .format = "mlir", .format_size = 4};
    PJRT_Client_Compile_Args compile = {.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE, .client = create.client,
                                        .program = &program, .compile_options = "", .compile_options_size = 0};
    must(api->PJRT_Client_Compile(&compile));
    static const int32_t zero = 0;
    PJRT_Client_BufferFromHostBuffer_Args upload = {
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE, .client = create.client, .data = &zero,
        .type = PJRT_Buffer_Type_S32,
        .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
        .device = devices.addressable_devices[0]};
    must(api->PJRT_Client_BufferFromHostBuffer(&upload));
    PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE};
    PJRT_Buffer *const arguments[] = {upload.buffer};
    PJRT_Buffer *const *const argument_lists[] = {arguments};
    PJRT_Buffer *outputs[1] = {NULL};
    PJRT_Buffer **const output_lists[] = {outputs};
    PJRT_Event *done[1] = {NULL};
    PJRT_LoadedExecutable_Execute_Args execute = {
        .struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE, .executable = compile.executable,
        .options = &options, .argument_lists = argument_lists, .num_devices = 1, .num_args = 1,
        .output_lists = output_lists, .device_complete_events = done};
    must(api->PJRT_LoadedExecutable_Execute(&execute));
    PJRT_Event_OnReady_Args ready = {.struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE, .event = done[0],
                                     .callback = on_ready, .user_arg = (void *)(intptr_t)pipe_end};
    must(api->PJRT_Event_OnReady(&ready));
    PJRT_Buffer_ToHostBuffer_Args read = {.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
                                          .src = outputs[0], .dst = destination, .dst_size = sizeof *destination};
    must(api->PJRT_Buffer_ToHostBuffer(&read));
}

int main(void) {
    dp_registry *registry = linked_registry();
    dp_plugin *plugin = NULL;
    OK(dp_registry_find(registry, "cpu", &plugin, &error));
    OK(dp_plugin_load(plugin, NULL, &api, &error));
    for (int time = 0; time < TIMES; ++time) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        fflush(NULL);
        /* No client or thread exists yet, so the child may use the device. */
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            static int32_t destination;
            if (atexit(at_exit) != 0) _exit(4);
            launch(ends[1], &destination);
            exit(CALLED);
        }
        close(ends[1]);
        char said = 0;
        const ssize_t got = read(ends[0], &said, 1);
        close(ends[0]);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == CALLED);
        CHECK(got == 0);
    }
    dp_plugin_free(plugin);
    dp_registry_free(registry);
    return done("exit");
}
#endif
