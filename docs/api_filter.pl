# perl docs/api_filter.pl HEADER: the header as Doxygen reads it. Comments `//` after members and above the #ifndef of a setting, and those of
# headroom.h, become Doxygen's. Its private parts are left out.
$_ = join "", <>;
if ($ARGV =~ /\.h$/) {
  s{^/\* (?=headroom: )}{/** \@file\n * };
  s{^(typedef struct \w+ \{) /\* (.*) \*/$}{/** $2 */\n$1}gm;
  s{^(\s*)/\* (?!-)}{$1/** }gm;
  s{(?<=\S)([ \t]+)/\* }{$1/**< }g;
}
s{((?:^// .*\n)+)(?=#ifndef HEADROOM_)}{$1 =~ s,^//,///,gmr}gme;
s{^  \S.*[;,\w\}][ \t]+//\K (?!NOLINT)}{/< }gm;
s{^ (?:private|protected):\n.*?(?=^ public:|^\};)}{}gms;
s{ : StepResult<void>}{};                                             # Doxygen takes it for recursion,
s{^template <.*>\nclass std::numeric_limits<(?s:.*?)^\};\n}{}gm;    # and does not find this namespace
print;
