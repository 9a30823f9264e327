// Makes everything.cpp a program.
double every_dtype();

int main() { return every_dtype() > 0.0 ? 0 : 1; }
