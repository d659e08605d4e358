/* Tests errors, versions, references, handles and options. */
#include "check.h"

static dp_option at(const dp_options *options, size_t index) {
    dp_option option;
    memset(&option, 0xff, sizeof option);
    option.struct_size = sizeof option;
    OK(dp_options_at(options, index, &option, &error));
    CHECK(option.struct_size == sizeof option);
    return option;
}

static void values(void) {
    const int64_t list[] = {3, 1, 2};
    dp_options *options = dp_options_new();
    CHECK(dp_options_count(options) == 0);
    OK(dp_options_set_string(options, "s", "text", &error));
    OK(dp_options_set_int64(options, "i", -7, &error));
    OK(dp_options_set_int64_list(options, "l", list, 3, &error));
    OK(dp_options_set_int64_list(options, "empty", NULL, 0, &error));
    OK(dp_options_set_float(options, "f", 0.5f, &error));
    OK(dp_options_set_bool(options, "b", true, &error));
    CHECK(dp_options_count(options) == 6);

    dp_option option = at(options, 0);
    CHECK(is(option.name, "s") && option.type == DP_VALUE_STRING && is(option.string_value, "text"));
    option = at(options, 1);
    CHECK(is(option.name, "i") && option.type == DP_VALUE_INT64 && option.int64_value == -7);
    CHECK(option.string_value.data == NULL && option.int64_list == NULL);
    option = at(options, 2);
    CHECK(option.type == DP_VALUE_INT64_LIST && option.int64_list_size == 3);
    CHECK(memcmp(option.int64_list, list, sizeof list) == 0);
    option = at(options, 3);
    CHECK(option.type == DP_VALUE_INT64_LIST && option.int64_list_size == 0 && option.int64_list == NULL);
    option = at(options, 4);
    CHECK(option.type == DP_VALUE_FLOAT && option.float_value == 0.5f);
    option = at(options, 5);
    CHECK(option.type == DP_VALUE_BOOL && option.bool_value);

    /* Setting the same name again replaces the value and keeps its position. */
    OK(dp_options_set_string(options, "i", "", &error));
    CHECK(dp_options_count(options) == 6);
    option = at(options, 1);
    CHECK(option.type == DP_VALUE_STRING && is(option.string_value, ""));

    /* Test sizes of structs. */
    option.struct_size = 0;
    FAILS(DP_INVALID_ARGUMENT, "`out->struct_size` is 0; set it to sizeof(dp_option)",
          dp_options_at(options, 0, &option, &error));
    option.struct_size = sizeof option - 1;
    FAILS(DP_INVALID_ARGUMENT, "struct_size", dp_options_at(options, 0, &option, &error));
    option.struct_size = SIZE_MAX;
    FAILS(DP_INVALID_ARGUMENT, "struct_size", dp_options_at(options, 0, &option, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is not aligned", dp_options_at(options, 0, CROOKED(dp_option), &error));
    struct {
        dp_option option;
        unsigned char later[16];
    } newer;
    memset(&newer, 0xab, sizeof newer);
    newer.option.struct_size = sizeof newer;
    OK(dp_options_at(options, 0, &newer.option, &error));
    CHECK(newer.option.struct_size == sizeof(dp_option) && newer.later[0] == 0xab && newer.later[15] == 0xab);

    FAILS(DP_OUT_OF_RANGE, "`index` is 6", dp_options_at(options, 6, &newer.option, &error));
    FAILS(DP_OUT_OF_RANGE, "`index` is", dp_options_at(options, SIZE_MAX, &newer.option, &error));
    FAILS(DP_INVALID_ARGUMENT, "`out` is NULL", dp_options_at(options, 0, NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`options` is NULL", dp_options_at(NULL, 0, &newer.option, &error));
    CHECK(dp_options_at(NULL, 0, NULL, NULL) == DP_INVALID_ARGUMENT);

    FAILS(DP_INVALID_ARGUMENT, "`options` is NULL", dp_options_set_int64(NULL, "x", 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is NULL", dp_options_set_int64(options, NULL, 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is empty", dp_options_set_bool(options, "", true, &error));
    FAILS(DP_INVALID_ARGUMENT, "`name` is not UTF-8", dp_options_set_float(options, "\xff", 1, &error));
    FAILS(DP_INVALID_ARGUMENT, "`value` is NULL", dp_options_set_string(options, "x", NULL, &error));
    FAILS(DP_INVALID_ARGUMENT, "`value` is not UTF-8", dp_options_set_string(options, "x", "\xc3(", &error));
    FAILS(DP_INVALID_ARGUMENT, "`values` is NULL", dp_options_set_int64_list(options, "x", NULL, 2, &error));
    FAILS(DP_INVALID_ARGUMENT, "`values` is not a valid array",
          dp_options_set_int64_list(options, "x", list, SIZE_MAX, &error));
    FAILS(DP_INVALID_ARGUMENT, "`values` is not a valid array",
          dp_options_set_int64_list(options, "x", CROOKED(const int64_t), 2, &error));
    CHECK(dp_options_set_int64(NULL, "x", 1, NULL) == DP_INVALID_ARGUMENT);
    CHECK(dp_options_count(options) == 6);
    RELEASE(options);
}

/* An object lives until it was released as often as it was retained, and once more. After that, and for everything else
 * that is no object, each use is an error. */
static void handles(void) {
    dp_options *options = dp_options_new();
    dp_policy *policy = dp_policy_new();
    CHECK(dp_retain(options) == DP_OK && dp_retain(options) == DP_OK);
    RELEASE(options);
    RELEASE(options);
    CHECK(dp_options_set_int64(options, "x", 1, NULL) == DP_OK && dp_options_count(options) == 1);

    dp_option out = {.struct_size = sizeof out};
    FAILS(DP_INVALID_ARGUMENT, "`options` is a dp_policy, but must be a dp_options",
          dp_options_at((const dp_options *)policy, 0, &out, &error));
    CHECK(dp_options_count((const dp_options *)policy) == 0);
    const dp_options *const garbage[] = {(const dp_options *)&out, (const dp_options *)1, (const dp_options *)-1,
                                         (const dp_options *)zeros(), CROOKED(dp_options),
                                         (const dp_options *)((uintptr_t)options ^ 2),
                                         (const dp_options *)((uintptr_t)options + ((uintptr_t)1 << 40))};
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; ++i) {
        FAILS(DP_INVALID_ARGUMENT, "`options` is", dp_options_at(garbage[i], 0, &out, &error));
        CHECK(dp_options_count(garbage[i]) == 0);
        CHECK(dp_retain(garbage[i]) == DP_INVALID_ARGUMENT);
        CHECK(dp_release((void *)(uintptr_t)garbage[i]) == DP_INVALID_ARGUMENT);
    }
    FAILS(DP_INVALID_ARGUMENT, "`options` is no object of this library", dp_options_at(garbage[0], 0, &out, &error));

    RELEASE(options);
    CHECK(dp_release(options) == DP_INVALID_ARGUMENT && dp_retain(options) == DP_INVALID_ARGUMENT);
    FAILS(DP_INVALID_ARGUMENT, "`options` is a dp_options that was freed", dp_options_at(options, 0, &out, &error));
    FAILS(DP_INVALID_ARGUMENT, "`options` is a dp_options that was freed",
          dp_options_set_int64(options, "x", 1, &error));
    CHECK(dp_options_count(options) == 0 && out.struct_size == sizeof out);

    /* The handle of the freed object does not name a new one. */
    dp_options *next = dp_options_new();
    CHECK(next != options && dp_release(options) == DP_INVALID_ARGUMENT && dp_options_count(options) == 0);
    RELEASE(next);
    RELEASE(policy);
    CHECK(dp_release(NULL) == DP_OK && dp_retain(NULL) == DP_OK);
}

int main(void) {
    CHECK(dp_abi_version() == DP_ABI_VERSION);
    CHECK(dp_version().size > 0 && strlen(dp_version().data) == dp_version().size);

    CHECK(dp_error_code(NULL) == DP_OK);
    CHECK(dp_error_message(NULL).data == NULL && dp_error_message(NULL).size == 0);
    size_t size = 77;
    CHECK(dp_options_count(NULL) == 0 && dp_bytes_data(NULL, &size) == NULL && size == 77);
    values();
    handles();

    /* The text of an error is independent of its cause, and a success does not change an earlier error. */
    dp_options *options = dp_options_new();
    dp_error *kept = NULL;
    CHECK(dp_options_set_int64(options, "", 1, &kept) == DP_INVALID_ARGUMENT);
    dp_error *before = kept;
    CHECK(dp_options_set_int64(options, "x", 1, &kept) == DP_OK);
    CHECK(kept == before);
    /* A place for the error that is not aligned is not used. */
    CHECK(dp_options_set_int64(options, "", 1, CROOKED(dp_error *)) == DP_INVALID_ARGUMENT);
    for (size_t i = 0; i < 1024; ++i) CHECK(zeros()[i] == 0);
    RELEASE(options);
    CHECK(is(dp_error_message(kept), "dp_options_set_int64: `name` is empty"));
    RELEASE(kept);
    CHECK(dp_error_code(kept) == DP_OK && dp_error_message(kept).data == NULL);
    return done("options");
}
