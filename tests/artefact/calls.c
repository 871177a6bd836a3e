/* Calls of net.so that only C can make: tensors without data, on other devices, with strides and offsets, from
 * many threads. Prints one line a check that fails, and the counts. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static int n_passed, n_failed;

static void expect(const char *name, int32_t status, int32_t wanted, const char *text) {
  const char *said = net_last_error();
  if (status == wanted && (text == NULL || strstr(said, text) != NULL)) {
    n_passed++;
  } else {
    n_failed++;
    printf("%s: status %d, wanted %d; said: %s\n", name, (int)status, (int)wanted, said);
  }
}

static float x_data[64 * 4], y_data[64 * 5], a_data[64 * 3], b_data[64];
static int64_t x_shape[] = {8, 4}, y_shape[] = {8, 5}, a_shape[] = {8, 3}, b_shape[] = {8};

static DLTensor floats(float *data, int32_t rank, int64_t *shape) {
  DLTensor tensor = {data, {1, 0}, rank, {2, 32, 1}, shape, NULL, 0};
  return tensor;
}

static void *work(void *arg) {
  float a[8 * 3], b[8];
  for (int i = 0; i < 2000; i++) {
    DLTensor x = floats(x_data, 2, x_shape), y = floats(y_data, 2, y_shape);
    DLTensor out_a = floats(a, 2, a_shape), out_b = floats(b, 1, b_shape);
    if (net_main(&x, &y, &out_a, &out_b) != 0 || memcmp(b, b_data, sizeof b) != 0) return arg;
  }
  return NULL;
}

int main(void) {
  for (int i = 0; i < 64 * 4; i++) x_data[i] = (float)(i % 7) - 3;
  for (int i = 0; i < 64 * 5; i++) y_data[i] = (float)i;
  DLTensor x = floats(x_data, 2, x_shape), y = floats(y_data, 2, y_shape);
  DLTensor a = floats(a_data, 2, a_shape), b = floats(b_data, 1, b_shape);
  expect("a good call", net_main(&x, &y, &a, &b), 0, NULL);
  expect("a right answer", b_data[1] == 5 + 6 + 7 + 8 + 9, 1, NULL);

  int64_t shape_a[2], shape_b[1];
  expect("shapes", net_main_shapes(&x, &y, shape_a, shape_b), 0, NULL);
  expect("shapes are right", shape_a[0] == 8 && shape_a[1] == 3 && shape_b[0] == 8, 1, NULL);

  DLTensor *made_a = NULL, *made_b = NULL;
  expect("results of the library", net_main_new(&x, &y, &made_a, &made_b), 0, NULL);
  if (made_a != NULL && made_b != NULL) {
    expect("they are right", memcmp(made_b->data, b_data, 8 * sizeof(float)) == 0, 1, NULL);
    net_free(made_a);
    net_free(made_b);
  }

  DLTensor bad = x;
  bad.data = NULL;
  expect("no data", net_main(&bad, &y, &a, &b), NET_VALUE, "argument 0 `x` has no data");
  bad = x;
  bad.device.device_type = 2;
  expect("another device", net_main(&bad, &y, &a, &b), NET_VALUE, "device of type 2");
  int64_t strides[] = {1, 8};
  bad = x;
  bad.strides = strides;
  expect("strides", net_main(&bad, &y, &a, &b), NET_VALUE, "not compact");
  int64_t compact[] = {4, 1};
  bad.strides = compact;
  expect("compact strides", net_main(&bad, &y, &a, &b), 0, NULL);
  bad = x;
  bad.dtype.lanes = 4;
  expect("lanes", net_main(&bad, &y, &a, &b), NET_TYPE, "4 lanes");
  int64_t huge[] = {INT64_MAX / 2, 4}, negative[] = {-8, 4};
  bad = x;
  bad.shape = huge;
  expect("a huge extent", net_main(&bad, &y, &a, &b), NET_VALUE, "more elements");
  bad.shape = negative;
  expect("a negative extent", net_main(&bad, &y, &a, &b), NET_VALUE, "is -8");
  expect("a null tensor", net_main(NULL, &y, &a, &b), NET_TYPE, "null tensor");
  int64_t short_shape[] = {7};
  bad = b;
  bad.shape = short_shape;
  expect("a short result", net_main(&x, &y, &a, &bad), NET_VALUE, "`out1.shape[0]` is 7");
  DLTensor moved = floats(x_data - 4, 2, x_shape);
  moved.byte_offset = 4 * sizeof(float);
  memset(a_data, 0, sizeof a_data);
  float again[8 * 3];
  DLTensor other = floats(again, 2, a_shape);
  expect("byte_offset", net_main(&moved, &y, &a, &b) | net_main(&x, &y, &other, &b), 0, NULL);
  expect("byte_offset is honoured", memcmp(again, a_data, sizeof again) == 0, 1, NULL);

  NetString names[] = {{"Ada", 3}, {NULL, 0}}, greetings[2];
  int64_t names_shape[] = {1, 2};
  DLTensor name = {names, {1, 0}, 2, {3, 128, 1}, names_shape, NULL, 0}, greeting = name;
  greeting.data = greetings;
  expect("strings", net_greet(&name, &greeting), 0, NULL);
  expect("strings are right", greetings[0].length == 10 && memcmp(greetings[0].bytes, "hello, Adahello, ", 17) == 0
         && greetings[1].bytes == greetings[0].bytes + 10 && greetings[1].length == 7, 1, NULL);
  free((void *)greetings[0].bytes);
  DLTensor *made = NULL;
  expect("strings of the library", net_greet_new(&name, &made), 0, NULL);
  if (made != NULL) {
    expect("they have bytes", memcmp(((NetString *)made->data)[0].bytes, "hello, Ada", 10) == 0, 1, NULL);
    net_free(made);
  }
  names[1].length = -1;
  expect("a string of no length", net_greet(&name, &greeting), NET_VALUE, "no string as element 1");

  pthread_t threads[6];
  for (int i = 0; i < 6; i++) pthread_create(&threads[i], NULL, work, x_data);
  int n_wrong = 0;
  for (int i = 0; i < 6; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    n_wrong += wrong != NULL;
  }
  expect("six threads at once", n_wrong, 0, NULL);
  expect("a missing params file", net_load_params("not-there.params"), NET_RUNTIME, "not-there.params");
  printf("%d passed, %d failed\n", n_passed, n_failed);
  return n_failed != 0;
}
