build-vm/capture/features.o: src/capture/features.c \
 src/capture/features.h
src/capture/features.h:
