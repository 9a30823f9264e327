#!/usr/bin/env perl
# declarations.pl HEADER.hpp ROOT: prints what a header below ROOT declares for users, one declaration a line.
# declarations.pl REFERENCE.md: the same of its c++ blocks, in which a line `// <headroom/HEADER.hpp>` names the header of what follows.
#
# A line is HEADER, SCOPE, NAME, TEXT, with tabs between them. SCOPE is a class, or `presets`, or `gpu`, or empty. TEXT is without comments,
# attributes, bodies, `inline`, `constexpr`, `noexcept`, `friend`; template parameters that are a std::enable_if_t or decltype, or named Any, P or B,
# which no user gives, or that a function's arguments determine; the executor that every verb takes last; bases and initialisers from headroom::detail. Numbers passed by const
# reference are passed by value in it. Left out are private members, `extern` declarations, and everything in headroom::detail.
use strict;
use warnings;

my $is_reference = $ARGV[0] =~ /\.md$/;
my (@tokens, $at, $header);
my $angles = qr/(<(?:[^<>]++|<<|(?-1))*>)/;

# The place after the bracket that closes the one at $i.
sub after_brackets {
  my ($i, $open, $close) = @_;
  my $depth = 0;
  for (; $i < @tokens; ++$i) {
    $depth += ($tokens[$i] eq $open) - ($tokens[$i] eq $close);
    return $i + 1 if $depth == 0;
    $i = after_brackets($i, '(', ')') - 1 if $tokens[$i] eq '(' && $open eq '<';
  }
  die "$header: a '$open' is not closed\n";
}

sub show {
  my ($scope, @head) = @_;
  local $_ = join ' ', @head;
  s/ ?,? std :: enable_if_t $angles = 0//g;
  s/ , class = decltype \(.*\) (?=> \w+ \()/ /;
  s/\b(?:inline|constexpr|friend|HEADROOM_DETAIL_HD) //g;
  s/ , const Executor & (?:\w+ )?= sequential//;
  s/ =(?: default)?$//;
  s/\bhd :: infinity\b/infinity/;
  s/ (?:=|: public|:) [^()]*\bdetail ::[^()]*$//;
  s/\bconst (float|double) & (?=\w+(?: [,=)]))/$1 /g;
  s/^template < class (?:Any|P|B) = \w+ > //;
  s/\bauto (.*) -> decltype \( (?:void \(.*|.* , void \( \) \))$/void $1/;
  s/\bauto (.*) -> std :: enable_if_t < .* , (\w+) >$/$2 $1/;
  s/ -> decltype \(.*//;
  s/ noexcept(?: \( .* \))?$//;
  return if /= delete$/ || /^(?:extern|namespace)\b/ || /^static_assert\b/ || /-> / || /\w (?:$angles )?:: ~?\w+ \(/ || /\b(?:class|struct) std ::/;
  my ($name) = (my $rest = s/^(?:template $angles )+(?:decltype \( auto \) )?//r) =~ /^(?:class|struct|enum class|using) (\w+)/;
  ($name) = $rest =~ /(operator \W+?|~ \w+|\w+) \(/ if !$name && $rest !~ /^[^(]* = /;
  ($name) = $rest =~ /(\w+)(?: \[.*\])?(?: [={].*)?$/ unless $name;
  s/ (?=[,;)>\]])//g; s/(?<=[(<[]) //g; s/ ?:: ?/::/g; s/ (?=[(<])//g; s/ (?=&|\*)//g; s/^template(?=<)/template /;
  # Parameters of a function template that its arguments determine are not shown.
  if (my ($parameters, $arguments) = /^template <([^<>=]+)> (?!class|struct|using)[^(]*(\(.*)/) {
    s/^template <[^<>]+> // unless grep { $arguments !~ /\b$_\b/ } $parameters =~ /(\w+)(?=,|$)/g;
  }
  print join("\t", $header, $scope, $name, $_), "\n";
}

# The declarations of a scope, up to the brace that closes it. $kind: namespace, class, struct or enum.
sub scope {
  my ($kind, $name, $is_shown) = @_;
  my $is_public = $kind ne 'class' || $is_reference;  # as if it said `public:`
  my (@head, $initialises, $assigns);
  my $done = sub { show($name, @head) if $is_shown && $is_public && @head; @head = (); $initialises = $assigns = 0 };
  for (; $at < @tokens && $tokens[$at] ne '}'; ++$at) {
    my ($token, $text) = ($tokens[$at], "@head");
    if ($token eq ';' || $kind eq 'enum' && $token eq ',') {
      # A header declares functions and classes again, without bodies, where it cannot include them.
      @head = () if !$is_reference && $kind eq 'namespace' && $text =~ /^(?:template|class|struct)\b|\(/ && !$assigns;
      $done->();
    } elsif ($token =~ /^(?:public|private|protected)$/ && $tokens[$at + 1] eq ':') {
      $is_public = $tokens[$at++] eq 'public';
    } elsif ($token =~ /^(?:[[(]|template)$/) {
      my $end = $token eq '[' ? after_brackets($at, '[', ']') : $token eq '(' ? after_brackets($at, '(', ')') : after_brackets($at + 1, '<', '>');
      push @head, @tokens[$at .. $end - 1] unless $initialises || "$token$tokens[$at + 1]" eq '[[';
      $at = $end - 1;
    } elsif ($token eq ':' && !$assigns && $text =~ /\)(?: noexcept)?$/) {
      $initialises = 1;
    } elsif ($token eq '{') {
      my $end = after_brackets($at, '{', '}');
      if ($text =~ /\bnamespace\b ?(.*)/) {
        my $inner = $1;
        ++$at;
        scope('namespace', $inner =~ /^(?:presets|gpu)$/ ? $inner : '', $is_shown && $inner =~ /^(?:|presets|gpu|headroom)$/);
        @head = ();
      } elsif (!$assigns && $text =~ /^(?:template $angles )*(class|struct|enum)\b(?: class)? (\w+(?: $angles)?)( ::)?/) {
        my ($inner_kind, $inner, $is_inner_shown) = ($2, $3, $is_shown && $is_public && !$5);
        $inner =~ tr/ //d;
        $done->();
        ++$at;
        scope($inner_kind, $inner, $is_inner_shown);
      } elsif ($text =~ /\(/ && !$assigns) {
        $done->() unless $initialises && $tokens[$at - 1] =~ /\w$/;  # of a member: a{b}
      } else {
        push @head, @tokens[$at .. $end - 1];
      }
      $at = $end - 1;
    } else {
      $assigns = 1 if $token eq '=' && (!@head || $head[-1] ne 'operator');
      push @head, $token unless $initialises;
    }
  }
  $done->() if $kind eq 'enum';
}

sub parse {
  (my $text, $header) = @_;
  my $string = qr/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)+'/;
  $text =~ s{($string)|//[^\n]*|/\*.*?\*/}{$1 // ''}gse;
  $text =~ s/\\\n/ /g;
  print join("\t", $header, '', $1, $1 . ($2 // '')), "\n" while $text =~ /^#define (HEADROOM_(?!DETAIL)\w+)(\([^)]*\))?/gm;
  $text =~ s/^[ \t]*#.*//gm;
  $text =~ s/HEADROOM_DETAIL_(?:BEGIN|END)_NAMESPACE//g;
  @tokens = $text =~ /$string|0x[\w.]+p[-+]?\w+|\d[\w.']*(?:e-\d+)?|\w+|::|->|&&|\.\.\.|[-+=!<>]=|<<|\S/g;
  $at = 0;
  scope('namespace', '', 1);
  die "$header: a brace closes nothing\n" if $at < @tokens;
}

my $file = $is_reference ? $ARGV[0] : "$ARGV[1]/$ARGV[0]";
open my $in, '<', $file or die "$file: $!\n";
my $text = do { local $/; <$in> };
if ($is_reference) {
  while ($text =~ /^```c\+\+\n(.*?)^```/gms) {
    my $block = $1;
    parse($2, $1) while $block =~ m{^// <headroom/(\S+)>[^\n]*\n(.*?)(?=^// <headroom/|\z)}gms;
  }
} else {
  parse($text, $ARGV[0]);
}
