static int32_t fixed_clamp(int64_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : (int32_t)value;
}
