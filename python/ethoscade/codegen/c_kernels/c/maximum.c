static VALUE maximum_of_TYPE(VALUE a, VALUE b, const VALUE* stage)
{
    (void)stage;
    return a > b ? a : b;
}
