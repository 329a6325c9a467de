/* uses: load.c TYPE=float32, store.c TYPE=float32, real_times.c */
#include <math.h>

/* a * b + c, the product rounded by itself. */
static double detection_placed(double a, double b, double c)
{
    const volatile double product = a * b;

    return product + c;
}

/* Corners (top, left, bottom, right) of box `number`, stored as a centre and a size in steps of its anchor. */
static void detection_decode(const uint8_t* boxes, size_t at, const uint8_t* anchors, size_t number,
                             const float* stage, uint8_t* corners)
{
    size_t d;

    for (d = 0; d < 2; ++d) {
        const double extent = (double)load_float32(anchors, 4 * number + 2 + d);
        const float centre = (float)detection_placed((double)load_float32(boxes, at + d) / (double)stage[d], extent,
                                                     (double)load_float32(anchors, 4 * number + d));
        const float half = (float)(0.5 * exp((double)load_float32(boxes, at + 2 + d) / (double)stage[2 + d]) * extent);

        store_float32(corners, 4 * number + d, centre - half);
        store_float32(corners, 4 * number + 2 + d, centre + half);
    }
}

/* How far two boxes overlap: the common area over that of both. */
static float detection_overlap(const uint8_t* corners, size_t a, size_t b)
{
    float sizes[3][2];
    float areas[3];
    size_t d;

    for (d = 0; d < 2; ++d) {
        const float first = load_float32(corners, 4 * a + d);
        const float second = load_float32(corners, 4 * b + d);
        const float first_end = load_float32(corners, 4 * a + 2 + d);
        const float second_end = load_float32(corners, 4 * b + 2 + d);

        sizes[0][d] = first_end - first;
        sizes[1][d] = second_end - second;
        sizes[2][d] = (first_end < second_end ? first_end : second_end) - (first > second ? first : second);
        sizes[2][d] = sizes[2][d] > 0.0f ? sizes[2][d] : 0.0f;
    }
    for (d = 0; d < 3; ++d) {
        areas[d] = real_times(sizes[d][0], sizes[d][1]);
    }
    return areas[0] <= 0.0f || areas[1] <= 0.0f ? 0.0f : areas[2] / (areas[0] + areas[1] - areas[2]);
}

/* The first of a box's best classes. */
static size_t detection_class(const uint8_t* scores, size_t at, size_t classes)
{
    size_t best = 0;
    size_t c;

    for (c = 1; c < classes; ++c) {
        best = load_float32(scores, at + c) > load_float32(scores, at + best) ? c : best;
    }
    return best;
}

/* TFLite_Detection_PostProcess, one class for each box: the best boxes in turn, without those that overlap them.
 * What is left of the outputs is 0.
 *
 * shape: boxes, numbers of one box, scores of one box, how many of them are ahead of the first class, most detections.
 * stage: scales of centres and sizes (y, x, h, w), least score, largest overlap. workspace: 17 bytes for each box.
 */
static void detection_float32(const uint8_t* boxes, const uint8_t* scores, const uint8_t* anchors, uint8_t* found_boxes,
                              uint8_t* found_classes, uint8_t* found_scores, uint8_t* found_count,
                              const int32_t* shape, const float* stage, uint8_t* workspace)
{
    const size_t count = (size_t)shape[0];
    const size_t classes = (size_t)(shape[2] - shape[3]);
    uint8_t* active = workspace + 16 * count;
    size_t found = 0;
    size_t i;
    size_t d;

    for (i = 0; i < count; ++i) {
        const size_t at = i * (size_t)shape[2] + (size_t)shape[3];

        detection_decode(boxes, i * (size_t)shape[1], anchors, i, stage, workspace);
        active[i] = load_float32(scores, at + detection_class(scores, at, classes)) >= stage[4] ? 1 : 0;
    }
    for (i = 0; i < (size_t)shape[4]; ++i) {
        float best = 0.0f;
        size_t chosen = count;
        size_t number = 0;
        size_t j;

        for (j = 0; j < count; ++j) {
            const size_t at = j * (size_t)shape[2] + (size_t)shape[3];
            const size_t of = detection_class(scores, at, classes);

            if (active[j] && (chosen == count || load_float32(scores, at + of) > best)) {
                chosen = j;
                number = of;
                best = load_float32(scores, at + of);
            }
        }
        for (d = 0; d < 4; ++d) {
            store_float32(found_boxes, 4 * i + d, chosen < count ? load_float32(workspace, 4 * chosen + d) : 0.0f);
        }
        store_float32(found_classes, i, (float)number);
        store_float32(found_scores, i, best);
        if (chosen == count) {
            continue;
        }
        ++found;
        active[chosen] = 0;
        for (j = 0; j < count; ++j) {
            if (active[j] && detection_overlap(workspace, chosen, j) > stage[5]) {
                active[j] = 0;
            }
        }
    }
    store_float32(found_count, 0, (float)found);
}
