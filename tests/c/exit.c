/* Tests a process that ends while a StableHLO program runs on the CPU device, without destroying its client. The
 * device's threads must stop before the exit functions that the process registered run. The callback must not be
 * called, and the exit status must be the one that the process passed to exit. The program is started through this
 * interface, and, if XLA's header is there, through the table. */
#include <dirent.h>
#include <sched.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#ifdef WITH_PJRT
#include "xla/pjrt/c/pjrt_c_api.h"
#endif

enum { CALLED = 42 };

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

static dp_plugin *plugin;
static const PJRT_Api *api;

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

/* In a child, an error becomes the exit status. */
static void must(dp_code code) {
    if (code != DP_OK) _exit(2);
}

/* Writes whether the event failed to the pipe `context`. */
static void on_ready(void *context, dp_error *error) {
    const char said = error != NULL ? 'e' : 'r';
    if (write((int)(intptr_t)context, &said, 1) != 1) _exit(3);
    must(dp_release(error));
}

/* Launches the program, registers a callback for its end, and starts to read its output. */
static void launch(int pipe_end, int32_t *destination) {
    dp_client *client = NULL;
    dp_program *program = NULL;
    dp_loaded_executable *executable = NULL;
    dp_buffer *input = NULL, *output = NULL;
    dp_event *done = NULL, *read = NULL;
    must(dp_plugin_create_client(plugin, NULL, NULL, &client, NULL));
    must(dp_program_new("mlir", ENDLESS, sizeof ENDLESS - 1, &program, NULL));
    must(dp_client_compile(client, program, NULL, &executable, NULL));
    static const int32_t zero = 0;
    const dp_upload upload = {.struct_size = sizeof upload, .data = &zero, .size = sizeof zero, .element_type = DP_S32};
    must(dp_client_upload(client, &upload, &input, NULL));
    const dp_buffer *const inputs[] = {input};
    must(dp_loaded_executable_execute(executable, inputs, 1, NULL, 0, NULL, &output, 1, &done, NULL));
    must(dp_event_on_ready(done, on_ready, (void *)(intptr_t)pipe_end, NULL));
    must(dp_buffer_start_to_host(output, NULL, destination, sizeof *destination, &read, NULL));
}

#ifdef WITH_PJRT
static void must_raw(PJRT_Error *error) {
    if (error != NULL) _exit(2);
}

static void on_ready_raw(PJRT_Error *error, void *user_arg) {
    const char said = error != NULL ? 'e' : 'r';
    if (write((int)(intptr_t)user_arg, &said, 1) != 1) _exit(3);
    if (error != NULL) {
        PJRT_Error_Destroy_Args args = {.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE, .error = error};
        api->PJRT_Error_Destroy(&args);
    }
}

/* The same through the table. */
static void launch_raw(int pipe_end, int32_t *destination) {
    PJRT_Client_Create_Args create = {.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE};
    must_raw(api->PJRT_Client_Create(&create));
    PJRT_Client_AddressableDevices_Args devices = {.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE,
                                                   .client = create.client};
    must_raw(api->PJRT_Client_AddressableDevices(&devices));
    PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)ENDLESS,
                            .code_size = sizeof ENDLESS - 1, .format = "mlir", .format_size = 4};
    PJRT_Client_Compile_Args compile = {.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE, .client = create.client,
                                        .program = &program, .compile_options = "", .compile_options_size = 0};
    must_raw(api->PJRT_Client_Compile(&compile));
    static const int32_t zero = 0;
    PJRT_Client_BufferFromHostBuffer_Args upload = {
        .struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE, .client = create.client, .data = &zero,
        .type = PJRT_Buffer_Type_S32,
        .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
        .device = devices.addressable_devices[0]};
    must_raw(api->PJRT_Client_BufferFromHostBuffer(&upload));
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
    must_raw(api->PJRT_LoadedExecutable_Execute(&execute));
    PJRT_Event_OnReady_Args ready = {.struct_size = PJRT_Event_OnReady_Args_STRUCT_SIZE, .event = done[0],
                                     .callback = on_ready_raw, .user_arg = (void *)(intptr_t)pipe_end};
    must_raw(api->PJRT_Event_OnReady(&ready));
    PJRT_Buffer_ToHostBuffer_Args read = {.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
                                          .src = outputs[0], .dst = destination, .dst_size = sizeof *destination};
    must_raw(api->PJRT_Buffer_ToHostBuffer(&read));
}
#endif

static void end_while_running(int times, void (*start)(int, int32_t *)) {
    for (int time = 0; time < times; ++time) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        fflush(NULL);
        /* No client or thread exists yet, so the child may use the device. */
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            static int32_t destination;
            if (atexit(at_exit) != 0) _exit(4);
            alarm(60);
            start(ends[1], &destination);
            while (!is_busy()) sched_yield();
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
}

int main(void) {
    dp_registry *registry = cpu_registry();
    OK(dp_registry_find(registry, CPU, &plugin, &error));
    OK(dp_plugin_load(plugin, NULL, &api, &error));
    /* At the exit, this library first waits some seconds for the program, which does not end. */
    end_while_running(2, launch);
#ifdef WITH_PJRT
    end_while_running(10, launch_raw);
#else
    printf("SKIPPED exit through the table: it needs the PJRT headers\n");
#endif
    RELEASE(plugin);
    RELEASE(registry);
    return done("exit");
}
