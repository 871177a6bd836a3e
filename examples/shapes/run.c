/* Ask net.so what a square is: cc run.c net.so -o run && ./run */
#include <stddef.h>
#include <stdio.h>

#include "net.h"

int main(void) {
  static const char *const names[] = {"circle", "square", "triangle", "cross"};
  float picture[24][24], answer[4];
  for (int y = 0; y < 24; y++)
    for (int x = 0; x < 24; x++)
      picture[y][x] = y >= 7 && y < 17 && x >= 7 && x < 17;

  int64_t picture_shape[] = {1, 1, 24, 24}, answer_shape[2];
  DLTensor in = {picture, {1, 0}, 4, {2, 32, 1}, picture_shape, NULL, 0};
  DLTensor out = {answer, {1, 0}, 2, {2, 32, 1}, answer_shape, NULL, 0};
  if (net_main_shapes(&in, answer_shape) || net_main(&in, &out)) {
    fprintf(stderr, "%s\n", net_last_error());
    return 1;
  }
  int best = 0;
  for (int i = 1; i < 4; i++)
    if (answer[i] > answer[best]) best = i;
  printf("square: %s (%.0f%%)\n", names[best], 100 * answer[best]);
  return best != 1;
}
